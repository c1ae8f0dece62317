import type { NetworkId } from '../domain/network.ts'
import { chargedStates, type PaymentState, paymentStates } from '../domain/payment.ts'
import type { BookedNumbers } from '../ports/chains/settler.ts'
import type { Books } from '../ports/store/books.ts'
import { transferScheme } from './bookTransfer.ts'

/** Newest payments that are looked through. */
const NEWEST = 1_000
const signedStates = paymentStates.filter((state) => state !== 'claimed')

/**
 * Account numbers that a settling key has used by the books: all from the lowest of them on. What was signed is forgotten
 * some days after its payment, so that they are those of the newest payments, as far as all of these have it still.
 *
 * @param key the name of the settler in stored attempts: `evm:eip155:8453:0xabc…`
 * @returns whole where the books are so young that nothing of what was charged is older or forgotten
 */
export async function bookedNumbers(
  books: Pick<Books, 'list'>,
  network: NetworkId,
  key: string,
): Promise<BookedNumbers> {
  const newest = await books.list({ states: signedStates, isNewestFirst: true, limit: NEWEST })
  const numbers = new Set<number>()
  let isWhole = newest.length < NEWEST
  for (const { attempt, state, scheme, network: of } of newest) {
    if (of !== network || scheme === transferScheme) continue
    if (attempt === null && isCharged(state)) {
      isWhole = false
      break
    }
    if (attempt?.settler === key && attempt.sequence !== null) numbers.add(Number(attempt.sequence))
  }
  return { numbers, isWhole }
}

const isCharged = (state: PaymentState): boolean => (chargedStates as readonly PaymentState[]).includes(state)
