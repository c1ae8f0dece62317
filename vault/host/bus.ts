import type { ApprovalView } from '../approvals/approval.ts'

/** What happens in the vault, for those who watch it. */
export type VaultEvent =
  | { readonly type: 'approval'; readonly agentId: string; readonly approval: ApprovalView }
  | { readonly type: 'locked'; readonly reason: string }
  | { readonly type: 'unlocked' }
  /** Something about an agent that its owner should know; for the owner only. */
  | { readonly type: 'notice'; readonly agentId: string; readonly text: string }

export interface Bus {
  publish(event: VaultEvent): void
  /** Returns how to stop listening. */
  watch(listener: (event: VaultEvent) => void): () => void
}

export function createBus(): Bus {
  const listeners = new Set<(event: VaultEvent) => void>()
  return {
    publish(event) {
      for (const listener of listeners) listener(event)
    },
    watch(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}
