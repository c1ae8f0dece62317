import type { PaymentIdentity, SettlementAttempt } from '../../../../core/domain/payment.ts'
import { quantity } from '../../../../core/evm/quantity.ts'
import type { Receipt } from '../../../../core/evm/transferProof.ts'
import type { Refusal, SettleOutcome, Settler } from '../../../../core/ports/settler.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { PaymentPayload } from '../../../../core/x402/types.ts'
import type { Budgets, Flight } from '../../budgets.ts'
import { noPlaceRefusals, refuse, refuseForNow } from '../../refuse.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { judgeReceipt } from '../prove/judgeReceipt.ts'
import { reasons } from '../reasons.ts'
import type { Head, HeadCache } from '../rpc/head.ts'
import type { Affordable } from './affordable.ts'
import { type BroadcastResult, broadcast } from './broadcast.ts'
import type { PaymentCalls } from './paymentCalls.ts'
import type { ReceiptWatch } from './receipts.ts'
import type { SettlingAccount } from './settlingAccount.ts'
import type { SyncSend } from './syncSend.ts'

/** A transfer that is broadcast later than this before its end would be mined too late. */
const MIN_LEAD_MS = 2_000
/** A transaction is overdue after so long, or after as often the usual time if that is longer. */
const MIN_OVERDUE_MS = 2_000
const OVERDUE_USUAL_TIMES = 4

export interface SettlementParts {
  readonly options: Required<EvmSettlerOptions>
  readonly rpc: Rpc
  readonly account: SettlingAccount
  readonly heads: HeadCache
  readonly receipts: ReceiptWatch
  readonly syncSend: SyncSend
  readonly budgets: Budgets
  readonly affordable: (head: Head, waiting: number) => Affordable
  readonly calls: PaymentCalls
}

/**
 * Makes the way of one payment to the chain: sign, store, broadcast, wait, prove. Until the bytes are stored everything
 * that goes wrong is `rejected`; from then on nothing is, because they can land.
 */
export function createSettlement(parts: SettlementParts): Settler['settle'] {
  const { options, rpc, account, heads, receipts, syncSend, budgets, affordable, calls } = parts
  const { network, clock, log } = options

  const prove = async (attempt: SettlementAttempt, receipt: Receipt, identity: PaymentIdentity) => {
    account.mined(attempt)
    const outcome = await judgeReceipt(rpc, receipt, identity, clock.now())
    // Mined for nothing is no end: somebody else may send the same authorisation once more.
    if (outcome.status !== 'settled' && 'message' in outcome) {
      log.warn(
        { network, transaction: outcome.transaction, reason: outcome.reason },
        'a settlement failed on chain',
      )
    }
    return { outcome, gas: costOf(receipt) }
  }

  const overdueMs = () => Math.max(MIN_OVERDUE_MS, OVERDUE_USUAL_TIMES * (receipts.usualMs ?? 0))

  let repairedAtMs = Number.NEGATIVE_INFINITY
  /**
   * A node can answer a broadcast and lose it, and whatever is signed later waits behind its nonce: while transactions are
   * overdue, what the pool lacks is sent again. All who wait share the looks, and each wants them rarer and rarer.
   *
   * @returns a function that ends it
   */
  const keepInPool = (): (() => void) => {
    const lookIn = (ms: number): NodeJS.Timeout =>
      setTimeout(() => {
        timer = lookIn(2 * ms)
        if (performance.now() - repairedAtMs < MIN_OVERDUE_MS) return
        repairedAtMs = performance.now()
        void account.repair()
      }, ms)
    let timer = lookIn(overdueMs())
    return () => clearTimeout(timer)
  }

  /** The first broadcast; with the receipt where the node gave it at once and it counts. */
  const send = async ({ bytes, transaction }: SettlementAttempt) => {
    const startedMs = performance.now()
    const waitMs = Math.min(overdueMs(), options.receiptTimeoutMs)
    const answer = await (syncSend.send(bytes, transaction, waitMs) ?? broadcast(rpc, bytes))
    if (!('receipt' in answer)) return { sent: answer }
    const sent: BroadcastResult = { taken: 'yes', isKnown: false }
    // It is in one block. Whether that is deep enough is for the watch to see.
    if (options.confirmations > 1) return { sent }
    receipts.note(performance.now() - startedMs)
    return { sent, receipt: answer.receipt }
  }

  const land = async (attempt: SettlementAttempt, identity: PaymentIdentity): Promise<Landed> => {
    const { transaction } = attempt
    const pending = { status: 'pending', transaction, reason: reasons.pending } as const
    const leavePool = keepInPool()
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
    } finally {
      leavePool()
    }
    void account.repair()
    return { outcome: pending }
  }

  const settle = async (
    payment: PaymentPayload,
    identity: PaymentIdentity,
    store: (attempt: SettlementAttempt) => Promise<boolean>,
    flight: Flight,
  ): Promise<Landed> => {
    const prepared = await calls.prepare(payment, identity)
    if (!prepared.ok) return rejected(prepared)
    let attempt: SettlementAttempt | undefined
    try {
      const affords = affordable(await heads.current(), 1)
      if (!affords.ok) return rejected(affords)
      if (!flight.reserve(affords.likelyWei)) return rejected(noPlaceRefusals.store_gas)
      attempt = await account.sign(prepared.call, affords.fees, store)
    } catch (error) {
      log.warn({ network, error: String(error) }, 'a settlement could not begin')
    }
    return attempt === undefined ? rejected(notBegun) : land(attempt, identity)
  }

  return async (payment, _terms, identity, store, hold) => {
    const flight = budgets.of(hold) ?? budgets.take(identity, '')
    if (typeof flight === 'string') return { ...noPlaceRefusals[flight], status: 'rejected' }
    if (!flight.begin()) return { ...notBegun, status: 'rejected' }
    let landed = rejected(tooLate)
    try {
      const leadMs = identity.validBeforeMs - clock.now()
      if (leadMs >= MIN_LEAD_MS) landed = await settle(payment, identity, store, flight)
    } finally {
      flight.end(landed.outcome, landed.gas)
    }
    return landed.outcome
  }
}

/** An outcome, and what it cost in wei where a receipt says so. */
interface Landed {
  readonly outcome: SettleOutcome
  readonly gas?: bigint | undefined
}

const rejected = ({ reason, message, transient }: Refusal): Landed => ({
  outcome: { status: 'rejected', reason, message, ...(transient && { transient }) },
})

const tooLate = refuse(reasons.validBefore, 'The authorization ends too soon to be settled. Sign a new one.')

const notBegun = refuseForNow(
  reasons.settleFault,
  'The settlement could not begin. Try again with the same payment; nothing was charged.',
)

/** What a transaction cost; rollups add what its bytes cost on the chain below (`l1Fee`). Undefined when the node leaves it out. */
function costOf(receipt: Receipt): bigint | undefined {
  const { gasUsed, effectiveGasPrice, l1Fee = '0x0' } = receipt as unknown as Record<string, unknown>
  try {
    return quantity(gasUsed) * quantity(effectiveGasPrice) + quantity(l1Fee)
  } catch {
    return undefined
  }
}
