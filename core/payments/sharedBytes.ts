import {
  chargedStates,
  neverSent,
  type PaymentRecord,
  type PaymentState,
  type SettlementAttempt,
} from '../domain/payment.ts'
import type { LookedUp, SettleOutcome } from '../ports/chains/settler.ts'
import type { Books } from '../ports/store/books.ts'
import type { Looks } from './transferWatch.ts'

/** So many looks are longer than whoever signs waits for a store (5 s on EVM networks). */
const LOOKS_AT_CLAIMED = 2

/** States of a payment whose attempt is the last that was stored for it, and may be another than it had. */
const goneOn: ReadonlySet<PaymentState> = new Set<PaymentState>(['settling', 'pending', ...chargedStates])

type MaySend = 'yes' | 'no' | 'not_yet'

/**
 * Asks a settler what became of open payments, and hands it bytes to send only where that charges nobody who has heard that nothing was.
 * What may not be sent is handed over without its bytes, or as if there were none, and withheld. Where the chain knows nothing of what is never
 * sent, the outcome says so ({@link neverSent}).
 *
 * @returns an outcome for each, in order
 */
export async function recoverShared(
  books: Pick<Books, 'find'>,
  settler: Looks,
  records: readonly PaymentRecord[],
): Promise<SettleOutcome[]> {
  const may = new Map<string, MaySend>()
  for (const record of records) {
    const { attempt } = record
    if (attempt === null || may.has(attempt.bytes)) continue
    may.set(attempt.bytes, await maySend(books, settler, { ...record, attempt }))
  }
  const answerOf = ({ attempt }: PaymentRecord) => (attempt === null ? 'yes' : may.get(attempt.bytes)!)
  const outcomes = await settler.recover(
    records.map((record): LookedUp => {
      const answer = answerOf(record)
      if (answer === 'yes') return record
      const attempt = record.attempt!
      return answer === 'no'
        ? { ...record, attempt: { ...attempt, bytes: '' } }
        : { ...record, attempt: null, withheld: attempt }
    }),
  )
  return outcomes.map((outcome, i) => {
    if (answerOf(records[i]!) !== 'no' || outcome.status !== 'pending') return outcome
    // Of bytes that are in a block nothing of the kind is said, however few blocks are above it.
    if (outcome.isUnused !== true) return outcome
    const message = 'it was never sent; its account number has to be used first'
    return { ...outcome, reason: neverSent, message }
  })
}

/**
 * Whether the bytes of an attempt may be sent. Those that settle several payments only if each of them stands in the books as one
 * that may be charged: else they were stored for some, never sent, and would charge somebody who has heard that nothing
 * was. Of one that is `settling` that is not known yet: its call may not have heard that it is stored, and withdraw it; nor of one that
 * is `claimed`: it may be stored in a moment, and sent by whoever signed it. After two looks it is claimed anew: nobody waits so long for
 * a store, and whatever is signed after these bytes waits behind them.
 */
async function maySend(
  books: Pick<Books, 'find'>,
  settler: Looks,
  { attempt, tries }: PaymentRecord & { attempt: SettlementAttempt },
): Promise<MaySend> {
  const keys = settler.paymentsOf?.(attempt) ?? []
  if (keys.length < 2) return 'yes'
  const found = await Promise.all(keys.map((key) => books.find(key)))
  // Once it was said of one of them it stays so: its account number is used up meanwhile.
  if (found.some((one) => one?.errorReason === neverSent && one.attempt?.transaction === attempt.transaction))
    return 'no'
  // One that went on with other bytes is not stored with these, unless they were mined without it: open, it may be free in a moment and
  // charged by these; charged, it leaves nothing to say that their number has a filler by now.
  const wereMined = found.some((one) => one?.transaction === attempt.transaction)
  const hasGoneOn = (one: PaymentRecord | undefined) =>
    one !== undefined && goneOn.has(one.state) && one.attempt?.bytes !== attempt.bytes
  if (!wereMined && found.some(hasGoneOn)) return 'no'
  const states = found.map((one) => one?.state)
  const isNone = (state: PaymentState | undefined) =>
    state === undefined || state === 'rejected' || (state === 'claimed' && tries >= LOOKS_AT_CLAIMED)
  if (states.some(isNone)) return 'no'
  return states.includes('settling') || states.includes('claimed') ? 'not_yet' : 'yes'
}
