import { networkTitle } from '../../../../core/domain/network.ts'
import { quantity } from '../../../../core/evm/quantity.ts'
import type { RefundProofs, RefundVerdict, TransferBack } from '../../../../core/ports/chains/refundProofs.ts'
import { resultOf } from '../../../../core/rpc/answer.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { missingRefund, type NodeAnswer } from '../../missingRefund.ts'
import { orUnavailable } from '../../orUnavailable.ts'
import { judgeRefund } from './judgeRefund.ts'
import { type EvmProofsOptions, openNodes } from './openNodes.ts'
import { receiptIn } from './pastBlocks.ts'

/** Makes the proof of refunds on one EVM network: one request, for both receipts and the height. */
export function createEvmRefundProofs(options: EvmProofsOptions): RefundProofs {
  const { network, confirmations, log, rpc, each } = openNodes(options)
  const said = orUnavailable<RefundVerdict>(network, log, 'a refund could not be looked up')

  /** @throws {RpcUnreachable} {RpcRefused} when the node does not answer, or not in full */
  async function askNode(node: Rpc, { transaction, saleTransaction }: TransferBack): Promise<NodeAnswer> {
    const [refund, sale, head] = await node.batch([
      { method: 'eth_getTransactionReceipt', params: [transaction] },
      { method: 'eth_getTransactionReceipt', params: [saleTransaction] },
      { method: 'eth_getBlockByNumber', params: ['latest', false] },
    ])
    if (receiptIn(refund, transaction) !== undefined) return { isKnown: true }
    if (receiptIn(sale, saleTransaction) === undefined) return { isKnown: false }
    const { timestamp } = resultOf(head) as { readonly timestamp: unknown }
    return { isKnown: false, headMs: 1_000 * Number(quantity(timestamp)) }
  }

  /** @throws {RpcUnreachable} {RpcRefused} when no node can say */
  async function look(expected: TransferBack): Promise<RefundVerdict> {
    const { transaction, saleTransaction } = expected
    const [refund, sale, height] = await rpc.batch([
      { method: 'eth_getTransactionReceipt', params: [transaction] },
      { method: 'eth_getTransactionReceipt', params: [saleTransaction] },
      { method: 'eth_blockNumber', params: [] },
    ])
    const receipt = receiptIn(refund, transaction)
    if (receipt === undefined) return missingRefund(each, (node) => askNode(node, expected))
    const depth = quantity(resultOf(height)) - quantity(receipt.blockNumber) + 1n
    if (depth < BigInt(confirmations)) return { status: 'not_final' }
    const sold = receiptIn(sale, saleTransaction)
    if (sold !== undefined) return judgeRefund(receipt, sold, expected)
    const message = `The nodes of ${networkTitle(network)} do not know the sale's transaction ${saleTransaction}.`
    return { status: 'unavailable', message }
  }

  return {
    prove: (expected) => said(() => look(expected), { transaction: expected.transaction }),
  }
}
