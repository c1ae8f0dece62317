import type { NetworkId } from '../../../core/domain/network.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import type { SettleOutcome } from '../../../core/ports/settler.ts'
import { createHeadCache } from './head.ts'
import { judgeReceipt } from './judgeReceipt.ts'
import { createReceiptWatch } from './receipts.ts'
import { createRecovery, type Recovery, type TracedPayment } from './recovery.ts'
import { createRpc } from './rpc.ts'

const zeroAddress = `0x${'00'.repeat(20)}`

export interface EvmChainReaderOptions {
  readonly network: NetworkId
  readonly rpcUrls: readonly string[]
  readonly confirmations?: number
  readonly rpcTimeoutMs?: number
  readonly firstPollMs?: number
  readonly pollMs?: number
  readonly expiryMarginSeconds?: number
  /** How often the whole of an open payment is looked up, in ms. Default 15,000. */
  readonly lookAgainMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/** Reads what became of payments that somebody else settles. It has no key and sends nothing. */
export interface EvmChainReader extends Recovery {
  /** Tells by its events what the payment's transaction did; whoever names it has seen it mined, or soon will. */
  prove(payment: TracedPayment, timeoutMs: number): Promise<SettleOutcome>
  close(): void
}

export function createEvmChainReader(options: EvmChainReaderOptions): EvmChainReader {
  const { network, confirmations = 1, firstPollMs = 20, pollMs = 1_000, clock = systemClock } = options
  const { rpcTimeoutMs = 10_000, expiryMarginSeconds = 30, lookAgainMs = 15_000, log = silentLog } = options
  const chainId = Number(network.slice('eip155:'.length))
  const rpc = createRpc({ urls: options.rpcUrls, chainId, timeoutMs: rpcTimeoutMs, clock, log })
  const heads = createHeadCache(rpc, zeroAddress, clock, 0)
  const receipts = createReceiptWatch({ rpc, firstPollMs, pollMs, confirmations, log })
  const recovery = createRecovery({
    options: {
      network,
      clock,
      log,
      confirmations,
      expiryMarginSeconds,
      receiptTimeoutMs: pollMs * 3,
      pollMs,
      lookAgainMs,
    },
    rpc,
    account: undefined,
    heads,
    receipts,
  })
  return {
    ...recovery,
    async prove(payment, timeoutMs) {
      const transaction = payment.attempt?.transaction ?? ''
      const receipt = transaction === '' ? undefined : await receipts.wait(transaction, timeoutMs, 0)
      if (receipt === undefined) return recovery.recover(payment)
      return judgeReceipt(rpc, receipt, payment, payment.claimedAtMs).catch(() => recovery.recover(payment))
    },
    close: () => receipts.close(),
  }
}
