import type { Backlog } from '../../../core/ports/store/operatorView.ts'

/** @param payments the number of payments in each state; states without any may be absent */
export function backlogOf(
  payments: readonly { readonly state: string; readonly total: number }[],
  webhooksWaiting: number,
  linksSuspended: number,
): Backlog {
  const of = (state: string) => payments.find((row) => row.state === state)?.total ?? 0
  return {
    open: { claimed: of('claimed'), settling: of('settling'), pending: of('pending') },
    refundsDue: of('refund_due'),
    webhooksWaiting,
    linksSuspended,
  }
}
