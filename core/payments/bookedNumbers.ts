import type { NetworkId } from '../domain/network.ts'
import { chargedStates, type PaymentState, paymentStates } from '../domain/payment.ts'
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
 * @returns undefined where the books know of none
 */
export async function bookedNumbers(
  books: Pick<Books, 'list'>,
  network: NetworkId,
  key: string,
): Promise<ReadonlySet<number> | undefined> {
  const newest = await books.list({ states: signedStates, isNewestFirst: true, limit: NEWEST })
  const numbers = new Set<number>()
  for (const { attempt, state, scheme, network: of } of newest) {
    if (of !== network || scheme === transferScheme) continue
    if (attempt === null && isCharged(state)) break
    if (attempt?.settler === key && attempt.sequence !== null) numbers.add(Number(attempt.sequence))
  }
  return numbers.size === 0 ? undefined : numbers
}

const isCharged = (state: PaymentState): boolean => (chargedStates as readonly PaymentState[]).includes(state)
