import { networkTitle } from '../../../../core/domain/network.ts'
import { quantity } from '../../../../core/evm/quantity.ts'
import type { RefundProofs, RefundVerdict, TransferBack } from '../../../../core/ports/chains/refundProofs.ts'
import { resultOf } from '../../../../core/rpc/answer.ts'
import { orUnavailable } from '../../orUnavailable.ts'
import { judgeRefund } from './judgeRefund.ts'
import { type EvmProofsOptions, openNodes } from './openNodes.ts'
import { receiptIn } from './pastBlocks.ts'

/** Makes the proof of refunds on one EVM network: one request, for both receipts and the height. */
export function createEvmRefundProofs(options: EvmProofsOptions): RefundProofs {
  const { network, confirmations, log, rpc } = openNodes(options)
  const said = orUnavailable<RefundVerdict>(network, log, 'a refund could not be looked up')

  /** @throws {RpcUnreachable} {RpcRefused} when no node can say */
  async function look(expected: TransferBack): Promise<RefundVerdict> {
    const { transaction, saleTransaction } = expected
    const [refund, sale, height] = await rpc.batch([
      { method: 'eth_getTransactionReceipt', params: [transaction] },
      { method: 'eth_getTransactionReceipt', params: [saleTransaction] },
      { method: 'eth_blockNumber', params: [] },
    ])
    const receipt = receiptIn(refund, transaction)
    if (receipt === undefined) return { status: 'not_found' }
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
