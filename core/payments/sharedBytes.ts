import {
  chargedStates,
  neverSent,
  type PaymentRecord,
  type PaymentState,
  type SettlementAttempt,
} from '../domain/payment.ts'
import type { SettleOutcome, TracedRecord } from '../ports/chains/settler.ts'
import type { Ledger } from '../ports/store/ledger.ts'
import type { SettlerQueries } from './transferWatch.ts'

/**
 * Maximum checks in which a payment may be seen `claimed`. Together they take longer than a signer waits for the database (5 s on
 * EVM networks).
 */
const CHECKS_OF_CLAIMED = 2

/** States of a payment whose stored attempt is its last one. An earlier attempt with the payment may have other bytes. */
const goneOn: ReadonlySet<PaymentState> = new Set<PaymentState>(['settling', 'pending', ...chargedStates])

type MaySend = 'yes' | 'no' | 'not_yet'

/**
 * Queries a settler for the outcomes of open payments. It gives the settler bytes to send only if they charge no buyer who was told
 * that nothing was charged. The settler gets an attempt that must never be sent without its bytes, and an attempt that must not be
 * sent yet as `withheld`. If the chain has no trace of an attempt that must never be sent, its outcome has the reason
 * {@link neverSent}.
 *
 * @returns an outcome for each payment, in order
 */
export async function recoverShared(
  ledger: Pick<Ledger, 'find'>,
  settler: SettlerQueries,
  records: readonly PaymentRecord[],
): Promise<SettleOutcome[]> {
  const may = new Map<string, MaySend>()
  for (const record of records) {
    const { attempt } = record
    if (attempt === null || may.has(attempt.bytes)) continue
    may.set(attempt.bytes, await maySend(ledger, settler, { ...record, attempt }))
  }
  const responseOf = ({ attempt }: PaymentRecord) => (attempt === null ? 'yes' : may.get(attempt.bytes)!)
  const outcomes = await settler.recover(
    records.map((record): TracedRecord => {
      const response = responseOf(record)
      if (response === 'yes') return record
      const attempt = record.attempt!
      return response === 'no'
        ? { ...record, attempt: { ...attempt, bytes: '' } }
        : { ...record, attempt: null, withheld: attempt }
    }),
  )
  return outcomes.map((outcome, i) => {
    if (responseOf(records[i]!) !== 'no' || outcome.status !== 'pending') return outcome
    // Bytes that are in a block do not get this reason, even if few blocks follow that block.
    if (outcome.isUnused !== true) return outcome
    const message = 'it was never sent; its nonce has to be used first'
    return { ...outcome, reason: neverSent, message }
  })
}

/**
 * Whether the bytes of an attempt may be sent. If the bytes settle several payments, the ledger must have stored each of them as
 * one that may be charged. Otherwise the bytes were stored for only some of the payments and never sent, and sending them would
 * charge a buyer who was told that nothing was charged.
 *
 * The result is `not_yet` while a payment is `settling`, because its call may still be unaware that the bytes are stored, and may
 * withdraw them. It is also `not_yet` while a payment is `claimed`, because its signer may be about to store the bytes and send
 * them. If a payment is still `claimed` after two checks, it was claimed again, because no signer waits so long for the database,
 * and everything signed after these bytes waits for them.
 */
async function maySend(
  ledger: Pick<Ledger, 'find'>,
  settler: SettlerQueries,
  { attempt, tries }: PaymentRecord & { attempt: SettlementAttempt },
): Promise<MaySend> {
  const keys = settler.paymentsOf?.(attempt) ?? []
  if (keys.length < 2) return 'yes'
  const found = await Promise.all(keys.map((key) => ledger.find(key)))
  // One payment has this reason, so the verdict is final, because the attempt's nonce is being used up.
  if (found.some((one) => one?.errorReason === neverSent && one.attempt?.transaction === attempt.transaction))
    return 'no'
  // A payment has continued with other bytes, so these bytes were not stored for it, unless they were mined without settling it. If
  // the payment is open, it may soon be freed and then charged by these bytes. If it is charged, no row shows that another
  // transaction has used the nonce.
  const wereMined = found.some((one) => one?.transaction === attempt.transaction)
  const hasGoneOn = (one: PaymentRecord | undefined) =>
    one !== undefined && goneOn.has(one.state) && one.attempt?.bytes !== attempt.bytes
  if (!wereMined && found.some(hasGoneOn)) return 'no'
  const states = found.map((one) => one?.state)
  const isNone = (state: PaymentState | undefined) =>
    state === undefined || state === 'rejected' || (state === 'claimed' && tries >= CHECKS_OF_CLAIMED)
  if (states.some(isNone)) return 'no'
  return states.includes('settling') || states.includes('claimed') ? 'not_yet' : 'yes'
}
