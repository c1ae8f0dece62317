import type { ApprovalView } from '../../approvals/approval.ts'
import type { RunningVault } from '../../testing/startVault.ts'

/** The questions that are open, as soon as there are so many. */
export async function openQuestions(
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
