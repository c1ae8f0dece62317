import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { Receipt } from '../../../../core/evm/transferProof.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { type BroadcastResult, broadcast } from './broadcast.ts'
import type { ReceiptWatch } from './receipts.ts'
import type { SettlingAccount } from './settlingAccount.ts'
import type { SyncSend } from './syncSend.ts'

/** A transaction is overdue after so long, or after as often the usual time if that is longer. */
const MIN_OVERDUE_MS = 2_000
const OVERDUE_USUAL_TIMES = 4

export interface LandingParts {
  readonly options: Required<EvmSettlerOptions>
  readonly rpc: Rpc
  readonly account: SettlingAccount
  readonly receipts: ReceiptWatch
  readonly syncSend: SyncSend
}

/** A signed transaction on its way, of one payment or of several. */
export interface Sent {
  readonly attempt: SettlementAttempt
  /** How many payments it is to settle. */
  readonly payments: number
  readonly receipt: Promise<Receipt | undefined>
}

/**
 * Sends what is stored, and waits until it counts.
 *
 * @returns the receipt; undefined when it is not known in time, and the recovery has to find out. Never rejects.
 */
export type Land = (attempt: SettlementAttempt) => Promise<Receipt | undefined>

/** Makes the way of stored bytes to the chain: broadcast, wait, broadcast again. Whatever happens, nothing new is signed here. */
export function createLanding({ options, rpc, account, receipts, syncSend }: LandingParts): Land {
  const { network, log } = options

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

  return async (attempt) => {
    const { transaction } = attempt
    const leavePool = keepInPool()
    try {
      const endMs = performance.now() + options.receiptTimeoutMs
      const leftMs = () => Math.max(options.firstPollMs, endMs - performance.now())
      const shortMs = () => Math.min(options.pollMs, leftMs())
      // Of what was not taken for sure, the answer may be there long since: it is looked for at once, not when it is usual.
      const soonMs = options.firstPollMs
      let { sent, receipt } = await send(attempt)
      receipt ??=
        sent.taken === 'yes'
          ? await receipts.wait(transaction, leftMs())
          : await receipts.wait(transaction, shortMs(), soonMs)
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
        receipt = isSent
          ? await receipts.wait(transaction, leftMs())
          : await receipts.wait(transaction, shortMs(), soonMs)
      }
      if (receipt !== undefined) {
        account.mined(attempt)
        return receipt
      }
      if (sent.taken === 'nonce_used' || sent.taken === 'nonce_contested') account.recheck()
    } catch (error) {
      log.warn({ network, transaction, error: String(error) }, 'the outcome of a settlement is not known yet')
    } finally {
      leavePool()
    }
    void account.repair()
    return undefined
  }
}
