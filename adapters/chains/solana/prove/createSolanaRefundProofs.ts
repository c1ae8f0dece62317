import { networkTitle } from '../../../../core/domain/network.ts'
import type { RefundProofs, RefundVerdict, TransferBack } from '../../../../core/ports/chains/refundProofs.ts'
import { missingRefund, type NodeAnswer } from '../../missingRefund.ts'
import { orUnavailable } from '../../orUnavailable.ts'
import { askStatuses, hasReached } from '../settle/confirm.ts'
import { judgeRefund } from './judgeRefund.ts'
import { effectsOf, type Landed, landedCall } from './landed.ts'
import { openNodes, type SolanaProofsOptions } from './openNodes.ts'

/** Makes the proof of refunds on one Solana network: two requests, where both transactions stand and what the refund did. */
export function createSolanaRefundProofs(options: SolanaProofsOptions): RefundProofs {
  const { network, commitment, log, rpc, each } = openNodes(options)
  const said = orUnavailable<RefundVerdict>(network, log, 'a refund could not be looked up')

  const unavailable = (message: string): RefundVerdict => ({ status: 'unavailable', message })

  /** @throws {RpcUnreachable} {RpcRefused} when the node does not answer, or not in full */
  async function askNode(
    node: (typeof each)[number],
    { transaction, saleTransaction }: TransferBack,
  ): Promise<NodeAnswer> {
    const { value } = await askStatuses(node, [transaction, saleTransaction], true)
    const [refund, sale] = value
    if (refund != null) return { isKnown: true }
    if (sale == null) return { isKnown: false }
    const slot = await node.call<number>('getSlot', { commitment: 'finalized' })
    const seconds = await node.call<number | null>('getBlockTime', slot)
    return { isKnown: false, ...(seconds !== null && { headMs: 1_000 * seconds }) }
  }

  /** @throws {RpcUnreachable} {RpcRefused} when no node can say */
  async function look(expected: TransferBack): Promise<RefundVerdict> {
    const { transaction, saleTransaction } = expected
    const { value } = await askStatuses(rpc, [transaction, saleTransaction], true)
    const [refund, sale] = value
    if (refund == null) return missingRefund(each, (node) => askNode(node, expected))
    if (!hasReached(refund, commitment)) return { status: 'not_final' }
    if (refund.err !== null) return { status: 'reverted' }
    if (sale == null) {
      return unavailable(
        `The nodes of ${networkTitle(network)} do not know the sale's transaction ${saleTransaction}.`,
      )
    }
    const { method, params } = landedCall(transaction, commitment)
    const landed = await rpc.call<Landed | null>(method, ...params)
    // The node that answered this question may be behind the one that answered the first.
    if (landed === null) return { status: 'not_final' }
    const effects = effectsOf(landed, transaction)
    const verdict = effects && judgeRefund(effects.message, effects.meta, expected)
    if (verdict === undefined)
      return unavailable(`The nodes of ${networkTitle(network)} do not tell what ${transaction} did.`)
    // Within one slot their order is not told; nobody is paid back in the very slot of the sale.
    const isLater = refund.slot > sale.slot
    return verdict.status === 'proved' && !isLater ? { status: 'mismatch', what: 'order' } : verdict
  }

  return {
    prove: (expected) => said(() => look(expected), { transaction: expected.transaction }),
  }
}
