import type { PaymentRecord } from '../domain/payment.ts'
import type { OnChain, SettleOutcome, Settler } from '../ports/chains/settler.ts'
import type { TransferProofs, TransferVerdict } from '../ports/chains/transferProofs.ts'
import type { Clock } from '../ports/clock.ts'

/** A transfer that left the chain and has not come back for so long does not any more: its nonce is used, or its block hash old. */
const GIVEN_UP_MS = 24 * 60 * 60 * 1000

/** What the recovery asks about payments: of a settler, or of {@link createTransferWatch}. */
export type Looks = Pick<Settler, 'recover' | 'booked' | 'stillOnChain' | 'paymentsOf'>

/** Looks plain transfers up after they were booked, for reorganisations: nobody settles them. Never rejects. */
export function createTransferWatch(proofs: Pick<TransferProofs, 'prove'>, clock: Clock): Looks {
  /** @returns the verdict, and the booked transfer where it is there as it was */
  async function look(record: PaymentRecord) {
    const { network, asset, payTo, amountAtomic, transaction, key } = record
    const wanted = { network, asset, payTo, amountAtomic, notBeforeMs: 0 }
    const verdict: TransferVerdict =
      transaction === null ? { status: 'none', isComplete: false } : await proofs.prove(wanted, transaction)
    const found = verdict.status === 'found' ? verdict.transfers.find((one) => one.key === key) : undefined
    return { verdict, found }
  }

  async function onChain(record: PaymentRecord): Promise<OnChain> {
    const { verdict, found } = await look(record)
    if (found !== undefined) return 'yes'
    return verdict.status === 'found' || isGone(verdict, record) ? 'no' : 'unknown'
  }

  async function outcomeOf(record: PaymentRecord): Promise<SettleOutcome> {
    const { verdict, found } = await look(record)
    const transaction = record.transaction ?? ''
    if (found !== undefined) {
      const { event, block, amountAtomic: chargedAtomic } = found
      return { status: 'settled', transaction, event, block, chargedAtomic }
    }
    if (isGone(verdict, record) && clock.now() - record.updatedAtMs > GIVEN_UP_MS) {
      const message = 'The transfer left the chain and did not come back.'
      return { status: 'failed_final', transaction, reason: 'left_chain', message }
    }
    return { status: 'pending', transaction, reason: 'settlement_pending' }
  }

  return {
    recover: (records) => each(records, outcomeOf),
    stillOnChain: (records) => each(records, onChain),
  }
}

/** A node that is not past the block where it was seen can say nothing about its absence. */
function isGone(verdict: TransferVerdict, { block }: PaymentRecord): boolean {
  if (verdict.status === 'mismatch') return true
  if (verdict.status !== 'pending' || verdict.isKnown) return false
  return verdict.seenUpTo !== undefined && verdict.seenUpTo > (block ?? 0)
}

/** One after the other: there are few, and nobody waits. */
async function each<T>(records: readonly PaymentRecord[], of: (record: PaymentRecord) => Promise<T>) {
  const found: T[] = []
  for (const record of records) found.push(await of(record))
  return found
}
