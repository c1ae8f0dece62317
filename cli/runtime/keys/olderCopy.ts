import type { NetworkId } from '../../../core/domain/network.ts'
import { bookedNumbers } from '../../../core/payments/bookedNumbers.ts'
import type { OwnKey } from '../../../core/ports/chains/settler.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Books } from '../../../core/ports/store/books.ts'

/**
 * Says so in the log when the chain has had more transactions of a key than the books know of, although they know some: a
 * database that is an older copy of itself looks like that. What is signed is in the books before it is sent, so that
 * otherwise somebody else has used the key, or a number was used for nothing. It keeps nobody from selling; what is
 * missing, `tollgate doctor` finds. Never rejects.
 */
export async function tellOfOlderCopy(
  network: NetworkId,
  { id, look }: Pick<OwnKey, 'id'> & Partial<Pick<OwnKey, 'look'>>,
  books: Pick<Books, 'list'>,
  log: Log,
): Promise<void> {
  try {
    // The chain first: what is signed meanwhile is in the books by then.
    const next = (await look?.())?.nonce?.mined
    if (next === undefined) return
    const { numbers } = await bookedNumbers(books, network, id)
    if (numbers.size === 0) return
    const lastBooked = Math.max(...numbers)
    if (next <= lastBooked + 1) return
    // One answer does not say it: a node may say too many once.
    const again = (await look?.())?.nonce?.mined
    const transactionsOnChain = Math.min(next, again ?? next)
    if (transactionsOnChain <= lastBooked + 1) return
    log.error(
      { network, key: id, transactionsOnChain, lastBooked },
      'the settling key has sent more than the database knows of: it may be an older copy of itself, which lacks sales. Run tollgate doctor',
    )
  } catch (err) {
    log.warn({ err, network, key: id }, 'could not hold a settling key against the database')
  }
}
