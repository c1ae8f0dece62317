import type { NetworkId } from '../../../../core/domain/network.ts'
import { quantity } from '../../../../core/evm/quantity.ts'
import { readReceipt } from '../../../../core/evm/transferProof.ts'
import { type Clock, systemClock } from '../../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../../core/ports/log.ts'
import type { RefundProofs, RefundVerdict, TransferBack } from '../../../../core/ports/refundProofs.ts'
import type { RpcAnswer } from '../../../../core/rpc/answer.ts'
import { RpcUnreachable } from '../../../../core/rpc/rpcError.ts'
import { createEvmRpc } from '../rpc/createEvmRpc.ts'
import { judgeRefund } from './judgeRefund.ts'

export interface EvmRefundProofsOptions {
  readonly network: NetworkId
  /** Asked in this order; at least one. */
  readonly rpcUrls: readonly string[]
  /** Blocks, the transaction's own included, before it counts. Default 1. */
  readonly confirmations?: number
  /** Limit of one request to a node, in ms. Default 10,000. */
  readonly rpcTimeoutMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/** Makes the proof of refunds on one EVM network: one request, for both receipts and the height. */
export function createEvmRefundProofs(options: EvmRefundProofsOptions): RefundProofs {
  const { network, rpcUrls, confirmations = 1, rpcTimeoutMs = 10_000 } = options
  const { clock = systemClock, log = silentLog } = options
  const chainId = Number(network.slice('eip155:'.length))
  const rpc = createEvmRpc({ urls: rpcUrls, chainId, timeoutMs: rpcTimeoutMs, clock, log })

  /** @throws {RpcUnreachable} {RpcRefused} when no node can say */
  async function look(expected: TransferBack): Promise<RefundVerdict> {
    const { transaction, saleTransaction } = expected
    const [refund, sale, height] = await rpc.batch([
      { method: 'eth_getTransactionReceipt', params: [transaction] },
      { method: 'eth_getTransactionReceipt', params: [saleTransaction] },
      { method: 'eth_blockNumber', params: [] },
    ])
    const receipt = readReceipt(resultOf(refund), transaction)
    if (receipt === undefined) return { status: 'not_found' }
    const depth = quantity(resultOf(height)) - quantity(receipt.blockNumber) + 1n
    if (depth < BigInt(confirmations)) return { status: 'not_final' }
    const sold = readReceipt(resultOf(sale), saleTransaction)
    if (sold !== undefined) return judgeRefund(receipt, sold, expected)
    const message = `The nodes of ${network} do not know the sale's transaction ${saleTransaction}.`
    return { status: 'unavailable', message }
  }

  return {
    async prove(expected) {
      try {
        return await look(expected)
      } catch (err) {
        log.warn({ err, network, transaction: expected.transaction }, 'a refund could not be looked up')
        return { status: 'unavailable', message: `No node of ${network} answers now.` }
      }
    },
  }
}

function resultOf(answer: RpcAnswer | undefined): unknown {
  if (answer?.ok) return answer.result
  throw answer?.error ?? new RpcUnreachable('the node left out an answer')
}
