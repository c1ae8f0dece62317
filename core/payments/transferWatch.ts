import type { PaymentRecord } from '../domain/payment.ts'
import type { OnChain, SettleOutcome, Settler } from '../ports/chains/settler.ts'
import type { TransferProofs, TransferVerdict } from '../ports/chains/transferProofs.ts'
import type { Clock } from '../ports/clock.ts'

/**
 * How long a transfer that left the chain may take to come back, in ms. After that it cannot come back, because its nonce is used
 * or its block hash is too old.
 */
const GIVEN_UP_MS = 24 * 60 * 60 * 1000

/** The queries that recovery makes about payments, to a settler or to {@link createTransferWatch}. */
export type SettlerQueries = Pick<Settler, 'recover' | 'booked' | 'stillOnChain' | 'paymentsOf'>

/** Checks recorded plain transfers for reorganizations, because settlers have no record of them. Never rejects. */
export function createTransferWatch(proofs: Pick<TransferProofs, 'prove'>, clock: Clock): SettlerQueries {
  /** @returns the verdict, and the recorded transfer if it is still at the same place on chain */
  async function readTransfer(record: PaymentRecord) {
    const { network, asset, payTo, amountAtomic, transaction, key } = record
    const wanted = { network, asset, payTo, amountAtomic, notBeforeMs: 0 }
    const verdict: TransferVerdict =
      transaction === null ? { status: 'none', isComplete: false } : await proofs.prove(wanted, transaction)
    const found = verdict.status === 'found' ? verdict.transfers.find((one) => one.key === key) : undefined
    return { verdict, found }
  }

  async function onChain(record: PaymentRecord): Promise<OnChain> {
    const { verdict, found } = await readTransfer(record)
    if (found !== undefined) return 'yes'
    return verdict.status === 'found' || isGone(verdict, record) ? 'no' : 'unknown'
  }

  async function outcomeOf(record: PaymentRecord): Promise<SettleOutcome> {
    const { verdict, found } = await readTransfer(record)
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

/** Whether a transfer has left the chain. A node cannot prove that before it is past the block in which the transfer was seen. */
function isGone(verdict: TransferVerdict, { block }: PaymentRecord): boolean {
  if (verdict.status === 'mismatch') return true
  if (verdict.status !== 'pending' || verdict.isKnown) return false
  return verdict.seenUpTo !== undefined && verdict.seenUpTo > (block ?? 0)
}

/** Checks one payment after the other, because there are few, and no request waits. */
async function each<T>(records: readonly PaymentRecord[], of: (record: PaymentRecord) => Promise<T>) {
  const found: T[] = []
  for (const record of records) found.push(await of(record))
  return found
}
