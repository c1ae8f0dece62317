/** @import { ApprovalView } from '../../approvals/approval.ts' */
import { call } from './session.js'

/** Later states win: an answer of the API may come after the event that overtook it. */
const rank = { pending: 0, approved: 1, consumed: 2, denied: 2, expired: 2, canceled: 2, failed: 2 }

/** @type {Map<string, ApprovalView>} */
const byId = new Map()
/** @type {Set<(changed: ApprovalView | undefined) => void>} */
const listeners = new Set()
/** For each reload under way what came by event meanwhile: its answer may be older. @type {Set<ApprovalView[]>} */
const reloads = new Set()

/** Every question that the page knows of, and its answer as far as it is known. */
export const approvals = {
  /** Oldest first: what has waited longest is on top, and nothing new moves what is being read. */
  get waiting() {
    return this.all.filter(({ status }) => status === 'pending').reverse()
  },
  /** Newest first. */
  get all() {
    return [...byId.values()].sort((a, b) => (a.created_at < b.created_at ? 1 : -1))
  },
  /** @param {string} id */
  get: (id) => byId.get(id),
  /** @param {(changed: ApprovalView | undefined) => void} listener called with what changed, or nothing after a reload */
  watch(listener) {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  },
  /** @param {ApprovalView} view */
  apply(view) {
    for (const arrived of reloads) arrived.push(view)
    if (!keep(view)) return
    for (const listener of listeners) listener(view)
  },
  /** Reads everything anew. The waiting ones by themselves: a long history must not hide them. */
  async load() {
    /** @type {ApprovalView[]} */
    const arrived = []
    reloads.add(arrived)
    try {
      const [waiting, recent] = await Promise.all([
        call('GET', '/approvals?status=pending'),
        call('GET', '/approvals'),
      ])
      byId.clear()
      for (const view of [...recent.approvals, ...waiting.approvals, ...arrived]) keep(view)
    } finally {
      reloads.delete(arrived)
    }
    for (const listener of listeners) listener(undefined)
  },
  clear() {
    byId.clear()
    for (const listener of listeners) listener(undefined)
  },
}

/** @param {ApprovalView} view @returns whether it says something new */
function keep(view) {
  const known = byId.get(view.id)
  if (known !== undefined && rank[known.status] > rank[view.status]) return false
  byId.set(view.id, view)
  return true
}
