import type { ApprovalView } from '../approvals/approval.ts'

/** Events of the vault for its watchers. */
export type VaultEvent =
  | { readonly type: 'approval'; readonly agentId: string; readonly approval: ApprovalView }
  | { readonly type: 'locked'; readonly reason: string }
  | { readonly type: 'unlocked' }
  /** A notice about an agent for its owner. Only the owner gets it. */
  | { readonly type: 'notice'; readonly agentId: string; readonly text: string }

export interface Bus {
  publish(event: VaultEvent): void
  /** @returns a function that stops watching */
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
