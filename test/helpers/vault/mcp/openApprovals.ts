import type { ApprovalView } from '../../../../vault/approvals/approval.ts'
import type { RunningVault } from '../startVault.ts'

/** The open approvals, as soon as there are this many. */
export async function openApprovals(
  { api, owner }: Pick<RunningVault, 'api' | 'owner'>,
  count = 1,
): Promise<readonly ApprovalView[]> {
  const open = () => api.approvals.list(owner, { status: 'pending' }).approvals
  if (open().length < count) {
    await new Promise<void>((resolve) => {
      const stop = api.watch(owner, () => {
        if (open().length < count) return
        stop()
        resolve()
      })
    })
  }
  return open()
}
