import type { RefundVerdict } from '../../core/ports/chains/refundProofs.ts'

/** What one node answers about a refund: that it has it, or how far it has come without it. */
export interface NodeAnswer {
  readonly isKnown: boolean
  /** The time of its newest block in ms since 1970; absent where it does not know the sale either. */
  readonly headMs?: number
}

/**
 * Asks each node about a refund that the first node does not have, and gives the verdict. A node that has the refund is right,
 * because the others may be behind. A node that fails to answer does not count.
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
