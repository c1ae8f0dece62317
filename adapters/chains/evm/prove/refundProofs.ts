import { networkTitle } from '../../../../core/domain/network.ts'
import { evmPaymentKey, evmPaymentKeyPrefix } from '../../../../core/domain/payment.ts'
import { addressWord, readTransferEvent, topics } from '../../../../core/evm/token.ts'
import { type LogEntry, mayBeByPermit2, type Receipt } from '../../../../core/evm/transferProof.ts'
import type { RefundProofs, RefundVerdict, TransferBack } from '../../../../core/ports/chains/refundProofs.ts'
import { quantity, resultOf } from '../../../../core/rpc/post.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { missingRefund, type NodeResponse, verdictOrUnavailable } from '../../proofs.ts'
import type { EvmNodes } from '../rpc/nodes.ts'
import { receiptIn } from './pastBlocks.ts'

/** Creates the proof of refunds on one EVM network. One request returns both receipts and the block height. */
export function createEvmRefundProofs({ network, confirmations, log, rpc, each }: EvmNodes): RefundProofs {
  const orUnavailable = verdictOrUnavailable<RefundVerdict>(network, log, 'a refund could not be checked')

  /** @throws {RpcUnreachable} {RpcRefused} when the node does not respond, or returns only a part */
  async function callNode(node: Rpc, { transaction, saleTransaction }: TransferBack): Promise<NodeResponse> {
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

  /** @throws {RpcUnreachable} {RpcRefused} when no node responds */
  async function verdictOf(expected: TransferBack): Promise<RefundVerdict> {
    const { transaction, saleTransaction } = expected
    const [refund, sale, height] = await rpc.batch([
      { method: 'eth_getTransactionReceipt', params: [transaction] },
      { method: 'eth_getTransactionReceipt', params: [saleTransaction] },
      { method: 'eth_blockNumber', params: [] },
    ])
    const receipt = receiptIn(refund, transaction)
    if (receipt === undefined) return missingRefund(each, (node) => callNode(node, expected))
    const depth = quantity(resultOf(height)) - quantity(receipt.blockNumber) + 1n
    if (depth < BigInt(confirmations)) return { status: 'not_final' }
    const sold = receiptIn(sale, saleTransaction)
    if (sold !== undefined) return judgeRefund(receipt, sold, expected)
    const message = `The nodes of ${networkTitle(network)} do not have the sale's transaction ${saleTransaction}.`
    return { status: 'unavailable', message }
  }

  return {
    prove: (expected) => orUnavailable(() => verdictOf(expected), { transaction: expected.transaction }),
  }
}

/**
 * Whether a receipt proves a refund. By the token's own events, the seller's wallet must have sent at least the amount to the
 * buyer's wallet, after subtracting what the buyer sent back in the same transaction. A payment by Permit2 is no refund. The sale must be
 * earlier.
 *
 * @throws {RpcUnreachable} when a node returned an invalid block number or index
 */
export function judgeRefund(receipt: Receipt, sale: Receipt, expected: TransferBack): RefundVerdict {
  if (receipt.status !== '0x1') return { status: 'reverted' }
  const tokenLogs = receipt.logs.filter((log) => log.address.toLowerCase() === expected.asset.toLowerCase())
  const moved = tokenLogs.flatMap((log) => {
    const transfer = readTransferEvent(log)
    return transfer === undefined ? [] : { ...transfer, isPayment: mayBeByPermit2(log, receipt) }
  })
  const [seller, buyer] = [addressWord(expected.from), addressWord(expected.to)]
  const toBuyer = moved.filter(({ to }) => to === buyer)
  const back = toBuyer.filter(({ from, isPayment }) => from === seller && !isPayment)
  const forth = moved.filter(({ from, to }) => from === buyer && to === seller)
  if (moved.length === 0) return { status: 'mismatch', what: 'asset' }
  if (toBuyer.length === 0) return { status: 'mismatch', what: 'recipient' }
  if (back.length === 0) return { status: 'mismatch', what: 'sender' }
  if (sum(back) - sum(forth) < expected.amountAtomic) return { status: 'mismatch', what: 'amount' }
  if (!isLater(receipt, sale)) return { status: 'mismatch', what: 'order' }
  return { status: 'proved', paymentKeys: paymentKeysOf(tokenLogs, expected) }
}

/** The authorizations of the seller's wallet that the transaction used. Each of them may be a payment for a purchase. */
function paymentKeysOf(tokenLogs: readonly LogEntry[], { network, asset, from }: TransferBack): string[] {
  const prefix = evmPaymentKeyPrefix(network, asset)
  return tokenLogs
    .filter((log) => log.topics[0] === topics.authorizationUsed)
    .filter((log) => log.topics[1]?.slice(2) === addressWord(from))
    .map((log) => evmPaymentKey(prefix, from.toLowerCase(), log.topics[2]!.toLowerCase()))
}

const sum = (moved: readonly { readonly amountAtomic: bigint }[]): bigint =>
  moved.reduce((total, { amountAtomic }) => total + amountAtomic, 0n)

function isLater(receipt: Receipt, than: Receipt): boolean {
  const [block, sold] = [quantity(receipt.blockNumber), quantity(than.blockNumber)]
  if (block !== sold) return block > sold
  return quantity(receipt.transactionIndex) > quantity(than.transactionIndex)
}
