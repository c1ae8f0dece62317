import type { RefundVerdict } from '../../core/ports/chains/refundProofs.ts'

/** What one node answers about a refund: that it has it, or how far it has come without it. */
export interface NodeAnswer {
  readonly isKnown: boolean
  /** The time of its newest block in ms since 1970; absent where it does not know the sale either. */
  readonly headMs?: number
}

/**
 * The verdict on a refund that one node does not know, after each node was asked: one that has it is right, and the others
 * may be behind. A node that does not answer says nothing.
 */
export async function missingRefund<Node>(
  nodes: readonly Node[],
  ask: (node: Node) => Promise<NodeAnswer>,
): Promise<RefundVerdict> {
  const answers = await Promise.all(nodes.map((node) => ask(node).catch(() => undefined)))
  if (answers.some((answer) => answer?.isKnown)) return { status: 'not_final' }
  const headMs = Math.max(...answers.map((answer) => answer?.headMs ?? 0))
  return { status: 'not_found', ...(headMs > 0 && { headMs }) }
}
