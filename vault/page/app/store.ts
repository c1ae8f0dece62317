import type { ApprovalView } from '../../approvals/approval.ts'
import { call } from './session.ts'

/** Order of the states. A later state wins, because a response may arrive after a newer event. */
const rank = { pending: 0, approved: 1, consumed: 2, denied: 2, expired: 2, canceled: 2, failed: 2 }

const byId = new Map<string, ApprovalView>()
const listeners = new Set<(changed: ApprovalView | undefined) => void>()
/** For each reload in flight, the events that arrived since, because its response may be older than they are. */
const reloads = new Set<ApprovalView[]>()

/** Every approval that the page has loaded. */
export const approvals = {
  /** Open approvals, oldest first. The approval that has waited longest is on top, and a new one moves nothing. */
  get waiting(): readonly ApprovalView[] {
    return this.all.filter(({ status }) => status === 'pending').reverse()
  },
  /** All approvals, newest first. */
  get all(): readonly ApprovalView[] {
    return [...byId.values()].sort((a, b) => (a.created_at < b.created_at ? 1 : -1))
  },
  get: (id: string): ApprovalView | undefined => byId.get(id),
  /** @param listener called with the changed approval, or with nothing after a reload */
  watch(listener: (changed: ApprovalView | undefined) => void): () => void {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  },
  apply(view: ApprovalView): void {
    for (const arrived of reloads) arrived.push(view)
    if (!keep(view)) return
    for (const listener of listeners) listener(view)
  },
  /** Reloads everything. Pending approvals have a request of their own, because a long history would hide them. */
  async load(): Promise<void> {
    const arrived: ApprovalView[] = []
    reloads.add(arrived)
    try {
      const [waiting, recent] = await Promise.all([
        call<{ approvals: ApprovalView[] }>('GET', '/approvals?status=pending'),
        call<{ approvals: ApprovalView[] }>('GET', '/approvals'),
      ])
      byId.clear()
      for (const view of [...recent.approvals, ...waiting.approvals, ...arrived]) keep(view)
    } finally {
      reloads.delete(arrived)
    }
    for (const listener of listeners) listener(undefined)
  },
  clear(): void {
    byId.clear()
    for (const listener of listeners) listener(undefined)
  },
}

/** @returns whether the view is new */
function keep(view: ApprovalView): boolean {
  const known = byId.get(view.id)
  if (known !== undefined && rank[known.status] > rank[view.status]) return false
  byId.set(view.id, view)
  return true
}
