import type { PaymentIdentity, SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { Settled, SettleOutcome } from '../../../../core/ports/chains/settler.ts'
import { describeError } from '../check/simulate.ts'
import type { ReadOptions } from '../options.ts'
import { reasons } from '../reasons.ts'
import type { Rpc } from '../rpc/createSolanaRpc.ts'
import { broadcast } from './broadcast.ts'
import {
  askStatuses,
  type Confirmation,
  type Confirmer,
  hasReached,
  type SignatureStatus,
} from './confirm.ts'
import type { SignedTransaction } from './cosign.ts'

export interface SettlementParts {
  readonly options: ReadOptions
  readonly rpc: Rpc
  readonly confirmer: Confirmer
}

/** What its verification leaves to a settlement. */
export interface Verified {
  /** Slot at which the node knew the block hash; null where it was not asked. */
  readonly seenSlot: number | null
  /** Whether the chain was asked so lately that the node need not simulate once more. */
  readonly isFresh: boolean
}

/** Settles one signed payment: stores it, sends it, and waits for the chain. Never rejects. */
/** @param settler whose attempt it is */
export type Settle = (
  settler: string,
  signed: SignedTransaction,
  identity: PaymentIdentity,
  verified: Verified,
  store: (attempt: SettlementAttempt) => Promise<boolean>,
) => Promise<SettleOutcome>

/**
 * Once the attempt is stored, the outcome is `settled` only by what the chain says of this very signature, and nothing is
 * final that may still be undone. Everything else, a node's refusal included, is `pending`: a proxy may have sent the transaction on and then
 * asked another node, and a buyer must never be told "not charged" by mistake.
 */
export function createSettle({ options, rpc, confirmer }: SettlementParts): Settle {
  const { commitment, confirmTimeoutMs, rebroadcastMs, log } = options

  /** A last look after a refusal: it may have landed before. */
  const lookOnce = async (signature: string): Promise<Confirmation | undefined> => {
    try {
      const { value } = await askStatuses(rpc, [signature], true)
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
    // The wait begins before the broadcast, so that no answer is missed while a node is slow to confirm the receipt.
    const confirmed = confirmer.wait(signature, confirmTimeoutMs)
    const sent = broadcast(rpc, base64, { skipPreflight: isFresh })
    const again = setInterval(() => broadcast(rpc, base64, { skipPreflight: false }), rebroadcastMs)
    try {
      const first = await Promise.race([confirmed, sent])
      if (first === undefined || 'err' in first) return [first, 'it was not confirmed in time']
      if (first.status !== 'refused') {
        const later = await confirmed
        return [later, first.status === 'unknown' ? first.message : 'it was not confirmed in time']
      }
      return [await lookOnce(signature), first.message]
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

/** What failed in a block is looked up so much later, in ms: until then the block is finalized, as a rule. */
const FINALIZED_AFTER_MS = 15_000

/** How a transaction failed, and how sure that is. */
type Failed = Pick<SignatureStatus, 'err'> & Partial<Pick<SignatureStatus, 'confirmationStatus'>>

/**
 * The outcome of a transaction that is in a block and failed there: once that block is finalized it can not land a second
 * time. Before that another fork may carry it once more.
 */
export function failedOnChain(
  transaction: string,
  { err, confirmationStatus }: Failed,
): Exclude<SettleOutcome, { status: 'rejected' | 'settled' }> {
  const message = `The transaction failed on chain: ${describeError(err)}.`
  const reason = reasons.transactionFailed
  return confirmationStatus === 'finalized'
    ? { status: 'failed_final', reason, message, transaction }
    : { status: 'pending', reason, message, transaction, lookAgainMs: FINALIZED_AFTER_MS }
}

/** A transaction carries one payment: x402 allows one transfer in it. */
export const settledIn = (transaction: string, slot: number | null, chargedAtomic: bigint): Settled => ({
  ...{ status: 'settled', transaction, event: '0', block: slot, chargedAtomic },
})

const rejected = (message: string): SettleOutcome => ({
  status: 'rejected',
  reason: reasons.settleFault,
  message,
  transient: true,
})
