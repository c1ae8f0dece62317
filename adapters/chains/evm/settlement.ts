import type { PaymentIdentity, SettlementAttempt } from '../../../core/domain/payment.ts'
import type { SettleOutcome, Settler } from '../../../core/ports/settler.ts'
import type { FailureBudget } from '../failureBudget.ts'
import { type BroadcastResult, broadcast } from './broadcast.ts'
import { type Fees, feesFor } from './fees.ts'
import type { HeadCache } from './head.ts'
import { judgeReceipt } from './judgeReceipt.ts'
import type { EvmSettlerOptions } from './options.ts'
import type { PaymentCalls } from './paymentCalls.ts'
import { reasons } from './reasons.ts'
import type { ReceiptWatch } from './receipts.ts'
import type { Rpc } from './rpc.ts'
import type { SettlingAccount } from './settlingAccount.ts'
import type { SyncSend } from './syncSend.ts'
import type { Receipt } from './transferProof.ts'

/** A transfer that is broadcast later than this before its end would be mined too late. */
const minLeadMs = 2_000
/** A node may keep back the receipt of a transaction for so long, or for as often the usual time if that is longer. */
const minSyncMs = 2_000
const syncUsualTimes = 4

export interface SettlementParts {
  readonly options: Required<EvmSettlerOptions>
  readonly rpc: Rpc
  readonly account: SettlingAccount
  readonly heads: HeadCache
  readonly receipts: ReceiptWatch
  readonly syncSend: SyncSend
  readonly budget: FailureBudget
  readonly calls: PaymentCalls
}

/**
 * Makes the way of one payment to the chain: sign, store, broadcast, wait, prove. Until the bytes are stored everything
 * that goes wrong is `rejected`; from then on nothing is, because they can land.
 */
export function createSettlement(parts: SettlementParts): Settler['settle'] {
  const { options, rpc, account, heads, receipts, syncSend, budget, calls } = parts
  const { network, clock, log, maxGas } = options

  /** What this settlement may pay for gas, or why it can't be paid now. */
  const affordableFees = async (): Promise<Fees | string> => {
    const head = await heads.current()
    const fees = feesFor(head, options)
    if (fees === undefined) return `the network asks ${head.baseFee} wei a unit of gas, above the cap`
    const needed = BigInt(maxGas) * fees.maxFeePerGas * BigInt(account.inFlight + 1)
    if (head.balance >= needed) return fees
    return `the settling account ${account.address} has ${head.balance} wei for fees, ${needed} are needed`
  }

  const prove = async (attempt: SettlementAttempt, receipt: Receipt, identity: PaymentIdentity) => {
    account.mined(attempt)
    const outcome = await judgeReceipt(rpc, receipt, identity, clock.now())
    if (outcome.status === 'failed_final') {
      budget.note(identity.payer)
      log.warn(
        { network, transaction: outcome.transaction, reason: outcome.reason },
        'a settlement failed on chain',
      )
    }
    return outcome
  }

  /** The first broadcast; with the receipt where the node gave it at once and it counts. */
  const send = async ({ bytes, transaction }: SettlementAttempt) => {
    const startedMs = performance.now()
    const waitMs = Math.max(minSyncMs, syncUsualTimes * (receipts.usualMs ?? 0))
    const answer = await (syncSend.send(bytes, transaction, Math.min(waitMs, options.receiptTimeoutMs)) ??
      broadcast(rpc, bytes))
    if (!('receipt' in answer)) return { sent: answer }
    const sent: BroadcastResult = { taken: 'yes', isKnown: false }
    // It is in one block. Whether that is deep enough is for the watch to see.
    if (options.confirmations > 1) return { sent }
    receipts.note(performance.now() - startedMs)
    return { sent, receipt: answer.receipt }
  }

  const land = async (attempt: SettlementAttempt, identity: PaymentIdentity): Promise<SettleOutcome> => {
    const { transaction } = attempt
    const pending = { status: 'pending', transaction, reason: reasons.pending } as const
    try {
      const endMs = performance.now() + options.receiptTimeoutMs
      const leftMs = () => Math.max(options.firstPollMs, endMs - performance.now())
      const shortMs = () => Math.min(options.pollMs, leftMs())
      let { sent, receipt } = await send(attempt)
      receipt ??= await receipts.wait(transaction, sent.taken === 'yes' ? leftMs() : shortMs())
      if (receipt === undefined && sent.taken !== 'yes') {
        if (sent.taken !== 'unknown') {
          log.error(
            { network, transaction, taken: sent.taken, node: sent.message },
            'a node refused a settlement',
          )
        }
        // The same bytes once more; a new transaction would be a second one.
        sent = await broadcast(rpc, attempt.bytes)
        const isSent = sent.taken === 'yes' || sent.taken === 'unknown'
        receipt = await receipts.wait(transaction, isSent ? leftMs() : shortMs())
      }
      if (receipt !== undefined) return await prove(attempt, receipt, identity)
      if (sent.taken === 'nonce_used' || sent.taken === 'nonce_contested') account.recheck()
    } catch (error) {
      log.warn({ network, transaction, error: String(error) }, 'the outcome of a settlement is not known yet')
    }
    void account.repair()
    return pending
  }

  return async (payment, _terms, identity, store) => {
    if (identity.validBeforeMs - clock.now() < minLeadMs) {
      return rejected(reasons.validBefore, 'The authorization ends too soon to be settled. Sign a new one.')
    }
    if (account.inFlight >= options.maxInFlight) {
      return rejectedForNow('Too many settlements are on their way. Try again with the same payment.')
    }
    const prepared = await calls.prepare(payment, identity)
    if (!prepared.ok) return { ...prepared, status: 'rejected' }

    let attempt: SettlementAttempt | undefined
    try {
      const fees = await affordableFees()
      if (typeof fees === 'string') {
        log.error({ network }, `settlement stopped: ${fees}`)
        return rejectedForNow(
          'Settlement is stopped for now. Try again with the same payment; nothing was charged.',
        )
      }
      attempt = await account.sign(prepared.call, fees, store)
    } catch (error) {
      log.warn({ network, error: String(error) }, 'a settlement could not begin')
    }
    if (attempt === undefined) {
      return rejectedForNow(
        'The settlement could not begin. Try again with the same payment; nothing was charged.',
      )
    }
    return land(attempt, identity)
  }
}

const rejected = (reason: string, message: string): SettleOutcome => ({ status: 'rejected', reason, message })

const rejectedForNow = (message: string): SettleOutcome => ({
  status: 'rejected',
  reason: reasons.settleFault,
  message,
  transient: true,
})
