import type { PaymentIdentity, SettlementAttempt } from '../../../core/domain/payment.ts'
import type { SettleOutcome } from '../../../core/ports/settler.ts'
import type { FailureBudget } from '../failureBudget.ts'
import { broadcast } from './broadcast.ts'
import { askStatuses, type Confirmation, type Confirmer, hasReached } from './confirm.ts'
import type { SignedTransaction } from './cosign.ts'
import type { ReadOptions } from './options.ts'
import { reasons } from './reasons.ts'
import type { Rpc } from './rpc.ts'
import { describeError } from './simulate.ts'

export interface SettlementParts {
  readonly settlerId: string
  readonly options: ReadOptions
  readonly rpc: Rpc
  readonly confirmer: Confirmer
  readonly budget: FailureBudget
}

/** Settles one signed payment: stores it, sends it, and waits for the chain. Never rejects. */
export type Settle = (
  signed: SignedTransaction,
  identity: PaymentIdentity,
  /** Whether the chain was asked so lately that the node need not simulate once more. */
  isFresh: boolean,
  store: (attempt: SettlementAttempt) => Promise<boolean>,
) => Promise<SettleOutcome>

/**
 * Once the attempt is stored, the outcome is `settled` or `failed_final` only by what the chain says of this very
 * signature. Everything else, a node's refusal included, is `pending`: a proxy may have sent the transaction on and then
 * asked another node, and a buyer must never be told "not charged" by mistake.
 */
export function createSettle({ settlerId, options, rpc, confirmer, budget }: SettlementParts): Settle {
  const { commitment, confirmTimeoutMs, rebroadcastMs, log } = options

  /** A last look after a refusal: it may have landed before. */
  const lookOnce = async (signature: string): Promise<Confirmation | undefined> => {
    try {
      const { value } = await askStatuses(rpc, [signature], true)
      const status = value[0]
      return status != null && hasReached(status, commitment) ? { err: status.err } : undefined
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
      if (first === undefined || !('status' in first)) return [first, 'it was not confirmed in time']
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

  return async (signed, identity, isFresh, store) => {
    const { base64: bytes, signature: transaction } = signed
    try {
      const isStored = await store({ settler: settlerId, bytes, transaction, sequence: null })
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
    if (confirmation.err === null) return { status: 'settled', transaction }
    budget.note(identity.payer)
    return failedOnChain(transaction, confirmation)
  }
}

/** The outcome of a transaction that is in a block and failed there: it can not land a second time. */
export function failedOnChain(transaction: string, { err }: Confirmation): SettleOutcome {
  const message = `The transaction failed on chain: ${describeError(err)}.`
  return { status: 'failed_final', reason: reasons.transactionFailed, message, transaction }
}

const rejected = (message: string): SettleOutcome => ({
  status: 'rejected',
  reason: reasons.settleFault,
  message,
  transient: true,
})
