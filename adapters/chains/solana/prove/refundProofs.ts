import { networkTitle } from '../../../../core/domain/network.ts'
import { solanaPaymentKey } from '../../../../core/domain/payment.ts'
import type { RefundProofs, RefundVerdict, TransferBack } from '../../../../core/ports/chains/refundProofs.ts'
import { tokenBalances } from '../../../../core/rpc/post.ts'
import { missingRefund, type NodeResponse, verdictOrUnavailable } from '../../proofs.ts'
import { openNodes, type SolanaProofsOptions } from '../rpc/nodes.ts'
import { hasReached, queryStatuses } from '../settle/confirmations.ts'
import {
  effectsOf,
  type Landed,
  type LandedMeta,
  landedCall,
  readMoves,
  tokenAccountsOf,
} from './landedTransaction.ts'

/**
 * Creates the proof of refunds on one Solana network. It takes one request for the status of both transactions and one for the
 * refund's effects.
 */
export function createSolanaRefundProofs(options: SolanaProofsOptions): RefundProofs {
  const { network, commitment, log, rpc, each } = openNodes(options)
  const orUnavailable = verdictOrUnavailable<RefundVerdict>(network, log, 'a refund could not be checked')

  const unavailable = (message: string): RefundVerdict => ({ status: 'unavailable', message })

  /** @throws {RpcUnreachable} {RpcRefused} when the node does not respond, or returns only a part */
  async function callNode(
    node: (typeof each)[number],
    { transaction, saleTransaction }: TransferBack,
  ): Promise<NodeResponse> {
    const { value } = await queryStatuses(node, [transaction, saleTransaction], true)
    const [refund, sale] = value
    if (refund != null) return { isKnown: true }
    if (sale == null) return { isKnown: false }
    const slot = await node.call<number>('getSlot', { commitment: 'finalized' })
    const seconds = await node.call<number | null>('getBlockTime', slot)
    return { isKnown: false, ...(seconds !== null && { headMs: 1_000 * seconds }) }
  }

  /** @throws {RpcUnreachable} {RpcRefused} when no node responds */
  async function verdictOf(expected: TransferBack): Promise<RefundVerdict> {
    const { transaction, saleTransaction } = expected
    const { value } = await queryStatuses(rpc, [transaction, saleTransaction], true)
    const [refund, sale] = value
    if (refund == null) return missingRefund(each, (node) => callNode(node, expected))
    if (!hasReached(refund, commitment)) return { status: 'not_final' }
    if (refund.err !== null) return { status: 'reverted' }
    if (sale == null) {
      return unavailable(
        `The nodes of ${networkTitle(network)} do not have the sale's transaction ${saleTransaction}.`,
      )
    }
    const { method, params } = landedCall(transaction, commitment)
    const landed = await rpc.call<Landed | null>(method, ...params)
    // The node of this response may lag behind the node of the first response.
    if (landed === null) return { status: 'not_final' }
    const effects = effectsOf(landed, transaction)
    const verdict = effects && judgeRefund(effects.message, effects.meta, expected)
    if (verdict === undefined)
      return unavailable(`The nodes of ${networkTitle(network)} do not return what ${transaction} did.`)
    // The order within one slot is unknown. This rule costs no seller a refund, because no seller refunds in the slot of the sale.
    const isLater = refund.slot > sale.slot
    return verdict.status === 'proved' && !isLater ? { status: 'mismatch', what: 'order' } : verdict
  }

  return {
    prove: (expected) => orUnavailable(() => verdictOf(expected), { transaction: expected.transaction }),
  }
}

/**
 * Whether a transaction that succeeded proves a refund. Its token instructions, including those of called programs, must move the
 * money from the seller's associated token account to the buyer's. This proves that the money was the seller's. The balance of the
 * buyer's account must grow by at least the amount. This proves that the amount arrived.
 *
 * @returns undefined if the message cannot be read
 */
export function judgeRefund(
  message: Uint8Array,
  meta: LandedMeta,
  expected: TransferBack,
): RefundVerdict | undefined {
  const read = readMoves(message, meta)
  if (read === undefined) return
  const { keys, moves: moved } = read
  const [buyers, sellers] = [
    tokenAccountsOf(expected.to, expected.asset),
    tokenAccountsOf(expected.from, expected.asset),
  ]
  const after = tokenBalances(meta.postTokenBalances, keys, expected.asset)
  const before = tokenBalances(meta.preTokenBalances, keys, expected.asset)
  const back = moved.filter(({ from, to }) => buyers.has(to) && sellers.has(from))
  const arrived = [...buyers].reduce((sum, at) => sum + (after.get(at) ?? 0n) - (before.get(at) ?? 0n), 0n)

  if (after.size === 0) return { status: 'mismatch', what: 'asset' }
  if (!moved.some(({ to }) => buyers.has(to))) return { status: 'mismatch', what: 'recipient' }
  if (back.length === 0) return { status: 'mismatch', what: 'sender' }
  const sent = back.reduce((sum, { amountAtomic }) => sum + amountAtomic, 0n)
  if (sent < expected.amountAtomic || arrived < expected.amountAtomic)
    return { status: 'mismatch', what: 'amount' }
  return { status: 'proved', paymentKeys: [solanaPaymentKey(expected.network, message)] }
}
