import type { NetworkId } from '../../../../core/domain/network.ts'
import { type Clock, systemClock } from '../../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../../core/ports/log.ts'
import type { ChainReader } from '../../facilitator/chainReader.ts'
import { createEvmRpc } from '../rpc/createEvmRpc.ts'
import { createHeadCache } from '../rpc/head.ts'
import { createReceiptWatch } from '../settle/receipts.ts'
import { judgeReceipt } from './judgeReceipt.ts'
import { createRecovery } from './recovery.ts'

const zeroAddress = `0x${'00'.repeat(20)}`

export interface EvmChainReaderOptions {
  readonly network: NetworkId
  readonly rpcUrls: readonly string[]
  readonly confirmations?: number
  readonly rpcTimeoutMs?: number
  readonly firstPollMs?: number
  readonly pollMs?: number
  readonly expiryMarginSeconds?: number
  readonly clock?: Clock
  readonly log?: Log
}

/** Reads what became of payments that somebody else settles. It has no key and sends nothing. */
export function createEvmChainReader(options: EvmChainReaderOptions): ChainReader {
  const { network, confirmations = 1, firstPollMs = 20, pollMs = 1_000, clock = systemClock } = options
  const { rpcTimeoutMs = 10_000, expiryMarginSeconds = 30, log = silentLog } = options
  const chainId = Number(network.slice('eip155:'.length))
  const rpc = createEvmRpc({ urls: options.rpcUrls, chainId, timeoutMs: rpcTimeoutMs, clock, log })
  const heads = createHeadCache(rpc, zeroAddress, clock, 0)
  const receipts = createReceiptWatch({ rpc, firstPollMs, pollMs, confirmations, log })
  const recovery = createRecovery({
    options: { network, log, confirmations, expiryMarginSeconds },
    rpc,
    accounts: [],
    heads,
  })
  return {
    ...recovery,
    async prove(payment, timeoutMs) {
      const transaction = payment.attempt?.transaction ?? ''
      const receipt = transaction === '' ? undefined : await receipts.wait(transaction, timeoutMs, 0)
      if (receipt === undefined) return (await recovery.recover([payment]))[0]!
      return judgeReceipt(rpc, receipt, payment, payment.claimedAtMs)
    },
    close: () => receipts.close(),
  }
}
