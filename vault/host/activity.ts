import { VaultError } from '../errors/error.ts'
import type { AuditEntry, AuditQuery } from '../ports/audit.ts'
import type { activityQuery } from '../requests/agentRequests.ts'
import type { InputOf } from '../requests/request.ts'

/** The document's activity event. Where no money was asked for, `amount` is 0 and `currency` empty. */
export interface ActivityEvent {
  readonly timestamp: string
  readonly agent: string
  readonly action: string
  readonly amount: number
  readonly currency: string
  readonly status: string
  /** Where a request was refused: what the agent said that it does. */
  readonly claimed?: string
  /** And what its bytes do. */
  readonly found?: string
}

/** What the owner sees beside it. */
export interface ActivityDetails {
  readonly seq: number
  readonly hash: string
  /** Exact, as text. */
  readonly amount: string | null
  readonly scope: string | null
  readonly recipient: string | null
  readonly chain: string | null
  readonly approval_id: string | null
  readonly decision_hash: string | null
  readonly request_id: string | null
  readonly code: string | null
  readonly note: string | null
}

export const eventView = (entry: AuditEntry): ActivityEvent => ({
  timestamp: entry.timestamp,
  agent: entry.agent,
  action: entry.action,
  amount: numberOf(entry.amount),
  currency: entry.currency ?? '',
  status: entry.status,
  ...(entry.claimed !== undefined && { claimed: entry.claimed }),
  ...(entry.found !== undefined && { found: entry.found }),
})

export const ownerEventView = (entry: AuditEntry): ActivityEvent & { readonly details: ActivityDetails } => ({
  ...eventView(entry),
  details: {
    seq: entry.seq,
    hash: entry.hash,
    amount: entry.amount ?? null,
    scope: entry.scope ?? null,
    recipient: entry.recipient ?? null,
    chain: entry.chain ?? null,
    approval_id: entry.approvalId ?? null,
    decision_hash: entry.decisionHash ?? null,
    request_id: entry.requestId ?? null,
    code: entry.code ?? null,
    note: entry.note ?? null,
  },
})

/** For showing only: a JSON number can not hold every amount, `details.amount` does. */
function numberOf(amount: string | undefined): number {
  const value = Number(amount ?? 0)
  return Number.isFinite(value) ? value : 0
}

/** Reads what was asked of the activity. @throws `VALIDATION_ERROR` for what is no time, in the words of a check */
export function auditQueryOf(input: InputOf<typeof activityQuery>): AuditQuery {
  const { since, until, ...rest } = input
  return {
    ...rest,
    ...(since !== undefined && { since: timeOf('since', since) }),
    ...(until !== undefined && { until: timeOf('until', until) }),
  }
}

function timeOf(path: string, text: string): string {
  const isTime = /^\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:\d{2}))?$/.test(text)
  const ms = isTime ? Date.parse(text) : Number.NaN
  if (!Number.isNaN(ms)) return new Date(ms).toISOString()
  const message = 'Expected an ISO 8601 time such as 2026-11-21T10:00:00Z.'
  throw new VaultError('VALIDATION_ERROR', `${path}: ${message}`, { details: [{ path, message }] })
}
