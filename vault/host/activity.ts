import { VaultError } from '../errors/error.ts'
import { type AuditEntry, type AuditQuery, auditActions, auditStatuses } from '../ports/audit.ts'

/** The document's activity event. Where no money was asked for, `amount` is 0 and `currency` empty. */
export interface ActivityEvent {
  readonly timestamp: string
  readonly agent: string
  readonly action: string
  readonly amount: number
  readonly currency: string
  readonly status: string
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

const known = ['agent', 'action', 'status', 'scope', 'since', 'until', 'limit', 'cursor']

/** Reads the query of `GET /v1/vault/activity`. @throws `VALIDATION_ERROR` */
export function readActivityQuery(query: URLSearchParams): AuditQuery {
  const problems: { path: string; message: string }[] = []
  const bad = (path: string, message: string): void => void problems.push({ path, message })
  for (const name of query.keys())
    if (!known.includes(name)) bad(name.slice(0, 64), `Expected ${known.join(', ')}.`)
  const one = (name: string): string | undefined => {
    const values = query.getAll(name)
    if (values.length > 1) bad(name, 'Expected it once.')
    const [value] = values
    if (value !== undefined && (value === '' || value.length > 256))
      bad(name, 'Expected 1 to 256 characters.')
    return value
  }
  const choice = <T extends string>(name: string, of: readonly T[]): T | undefined => {
    const value = one(name)
    if (value === undefined || of.includes(value as T)) return value as T | undefined
    bad(name, `Expected one of ${of.join(', ')}.`)
    return undefined
  }
  const time = (name: string): string | undefined => {
    const value = one(name)
    if (value === undefined) return undefined
    const ms = /^\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:\d{2}))?$/.test(value)
      ? Date.parse(value)
      : Number.NaN
    if (Number.isNaN(ms)) bad(name, 'Expected an ISO 8601 time such as 2026-11-21T10:00:00Z.')
    return Number.isNaN(ms) ? undefined : new Date(ms).toISOString()
  }
  const limitText = one('limit')
  const limit = limitText === undefined ? undefined : Number(limitText)
  if (limit !== undefined && (!/^\d{1,3}$/.test(limitText!) || limit < 1 || limit > 500))
    bad('limit', 'Expected a whole number from 1 to 500.')
  const found = {
    agent: one('agent'),
    action: choice('action', auditActions),
    status: choice('status', auditStatuses),
    scope: one('scope'),
    since: time('since'),
    until: time('until'),
    limit,
    cursor: one('cursor'),
  }
  if (problems.length > 0)
    throw new VaultError('VALIDATION_ERROR', `${problems[0]!.path}: ${problems[0]!.message}`, {
      details: problems,
    })
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined)) as AuditQuery
}
