import type { PaymentIdentity, SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { Settled, SettleOutcome } from '../../../../core/ports/chains/settler.ts'
import { describeError } from '../check/simulation.ts'
import type { ReadOptions } from '../options.ts'
import { reasons } from '../reasons.ts'
import type { Rpc } from '../rpc/nodes.ts'
import {
  type Confirmation,
  type Confirmer,
  hasReached,
  queryStatuses,
  type SignatureStatus,
} from './confirmations.ts'
import { broadcast, type SignedTransaction } from './transaction.ts'

export interface SettlementDeps {
  readonly options: ReadOptions
  readonly rpc: Rpc
  readonly confirmer: Confirmer
}

/** The values that verification passes to the settlement. */
export interface Verified {
  /** Slot at which the node had the block hash. Null if the slot was not read. */
  readonly seenSlot: number | null
  /** Whether the chain was asked so recently that the node need not simulate again. */
  readonly isFresh: boolean
}

/**
 * Stores one signed payment, sends it, and waits for the chain. Never rejects.
 *
 * @param settler the id of the settler in the stored attempt
 */
export type Settle = (
  settler: string,
  signed: SignedTransaction,
  identity: PaymentIdentity,
  verified: Verified,
  store: (attempt: SettlementAttempt) => Promise<boolean>,
) => Promise<SettleOutcome>

/**
 * Creates the settlement. Once the attempt is stored, the outcome is `settled` only if the chain reports this signature, and no
 * outcome is final that a fork may undo. Everything else is `pending`, even a node's refusal, because a proxy may have forwarded
 * the transaction and then called another node. So no buyer is told "not charged" by mistake.
 */
export function createSettle({ options, rpc, confirmer }: SettlementDeps): Settle {
  const { commitment, confirmTimeoutMs, rebroadcastMs, log } = options

  /** Checks once more after a refusal, because the transaction may have landed before. */
  const pollOnce = async (signature: string): Promise<Confirmation | undefined> => {
    try {
      const { value } = await queryStatuses(rpc, [signature], true)
      const status = value[0]
      return status != null && hasReached(status, commitment) ? status : undefined
    } catch {
      return undefined
    }
  }

  const land = async (
    signed: SignedTransaction,
    isFresh: boolean,
  ): Promise<[Confirmation | undefined, string]> => {
    const { base64, signature } = signed
    // The wait begins before the broadcast, so that no notification is missed while a node is slow to respond.
    const confirmed = confirmer.wait(signature, confirmTimeoutMs)
    const sent = broadcast(rpc, base64, { skipPreflight: isFresh })
    const again = setInterval(() => broadcast(rpc, base64, { skipPreflight: false }), rebroadcastMs)
    try {
      const first = await Promise.race([confirmed, sent])
      if (first === undefined || 'err' in first) return [first, 'the transaction was not confirmed in time']
      if (first.status !== 'refused') {
        const later = await confirmed
        return [
          later,
          first.status === 'unknown' ? first.message : 'the transaction was not confirmed in time',
        ]
      }
      return [await pollOnce(signature), first.message]
    } finally {
      clearInterval(again)
      confirmer.giveUp(signature)
    }
  }

  return async (settler, signed, identity, { seenSlot, isFresh }, store) => {
    const { base64: bytes, signature: transaction } = signed
    const sequence = seenSlot === null ? null : String(seenSlot)
    try {
      const isStored = await store({ settler, bytes, transaction, sequence })
      if (!isStored) return rejected('Another process works on this payment.')
    } catch (error) {
      log.warn({ error, payment: identity.key }, 'a Solana payment could not be stored, so it was not sent')
      return rejected('The payment could not be stored, so it was not sent. Try again.')
    }
    const [confirmation, why] = await land(signed, isFresh)
    if (confirmation === undefined) {
      log.info({ payment: identity.key, transaction, why }, 'a Solana payment is pending')
      return { status: 'pending', transaction, reason: reasons.pending }
    }
    if (confirmation.err === null) return settledIn(transaction, confirmation.slot, identity.amountAtomic)
    return failedOnChain(transaction, confirmation)
  }
}

/** How long after its failure in a block a transaction is checked again, in ms. By then the block is usually finalized. */
const FINALIZED_AFTER_MS = 15_000

/** The failure of a transaction, and how certain it is. */
type Failed = Pick<SignatureStatus, 'err'> & Partial<Pick<SignatureStatus, 'confirmationStatus'>>

/**
 * The outcome of a transaction that failed in a block. Once that block is finalized, the transaction cannot land again. Before
 * that, another fork may still contain it.
 */
export function failedOnChain(
  transaction: string,
  { err, confirmationStatus }: Failed,
): Exclude<SettleOutcome, { status: 'rejected' | 'settled' }> {
  const message = `The transaction failed on chain: ${describeError(err)}.`
  const reason = reasons.transactionFailed
  return confirmationStatus === 'finalized'
    ? { status: 'failed_final', reason, message, transaction }
    : { status: 'pending', reason, message, transaction, recheckMs: FINALIZED_AFTER_MS }
}

/** A transaction carries one payment, because x402 allows one transfer in a transaction. */
export const settledIn = (transaction: string, slot: number | null, chargedAtomic: bigint): Settled => ({
  status: 'settled',
  transaction,
  event: '0',
  block: slot,
  chargedAtomic,
})

const rejected = (message: string): SettleOutcome => ({
  status: 'rejected',
  reason: reasons.settleFault,
  message,
  transient: true,
})
