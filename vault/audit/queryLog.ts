import { readFile } from 'node:fs/promises'
import { setImmediate as others } from 'node:timers/promises'
import { VaultError } from '../errors/error.ts'
import type { AuditEntry, AuditPage, AuditQuery } from '../ports/audit.ts'
import { readLine } from './auditLine.ts'
import type { Segment } from './segments.ts'

const DEFAULT_LIMIT = 100
const LARGEST_LIMIT = 500
/** Lines that one call reads; a filter that matches little gets short pages instead of a long wait. */
const MOST_LINES = 20_000
/** A line that a filter passes over unread costs this part of one that is read. */
const UNREAD_COST = 0.1
/** After so many lines everybody else has a turn: a few milliseconds. */
const LINES_IN_TURN = 500

/** One page of the log, newest first, from its files. */
export async function queryLog(
  segments: readonly Segment[],
  lastSeq: number,
  query: AuditQuery,
): Promise<AuditPage> {
  const limit = readLimit(query.limit)
  const matches = createFilter(query)
  const needles = needlesOf(query)
  const entries: AuditEntry[] = []
  let before = Math.min(readCursor(query.cursor), lastSeq + 1)
  let lines = 0
  let turnAt = LINES_IN_TURN
  for (const { file, firstSeq } of segments.toReversed()) {
    if (firstSeq >= before) continue
    if (lines >= MOST_LINES) return { entries, cursor: String(before) }
    const bytes = await readFile(file)
    let end = bytes.lastIndexOf(10)
    while (end > 0) {
      if (lines >= turnAt) {
        turnAt = lines + LINES_IN_TURN
        await others()
      }
      const start = bytes.lastIndexOf(10, end - 1) + 1
      const raw = bytes.subarray(start, end)
      end = start - 1
      if (!needles.every((needle) => raw.includes(needle))) {
        lines += UNREAD_COST
        continue
      }
      const line = readLine(raw)
      lines++
      // A damaged line is verify's to name; here it would hide the others.
      if (line === undefined || line.seq >= before) continue
      before = line.seq
      if (!matches(line.entry)) continue
      entries.push(line.entry)
      if (entries.length === limit) return { entries, cursor: before > 1 ? String(before) : undefined }
    }
    before = firstSeq
  }
  return { entries, cursor: undefined }
}

/** What a line of an entry that matches has in it; a text inside of another one has its quotes escaped. */
function needlesOf({ agent, action, status, scope, recipient }: AuditQuery): readonly Buffer[] {
  return Object.entries({ agent, action, status, scope, recipient }).flatMap(([name, value]) =>
    value === undefined ? [] : Buffer.from(`"${name}":${JSON.stringify(value)}`),
  )
}

function createFilter(query: AuditQuery): (entry: AuditEntry) => boolean {
  const { agent, action, status, scope, recipient } = query
  const since = readTime('since', query.since) ?? Number.NEGATIVE_INFINITY
  const until = readTime('until', query.until) ?? Number.POSITIVE_INFINITY
  return (entry) => {
    const at = Date.parse(entry.timestamp)
    return (
      (agent === undefined || entry.agent === agent) &&
      (action === undefined || entry.action === action) &&
      (status === undefined || entry.status === status) &&
      (scope === undefined || entry.scope === scope) &&
      (recipient === undefined || entry.recipient === recipient) &&
      at >= since &&
      at < until
    )
  }
}

function readLimit(limit: number | undefined): number {
  if (limit === undefined) return DEFAULT_LIMIT
  if (Number.isInteger(limit) && limit >= 1 && limit <= LARGEST_LIMIT) return limit
  throw new VaultError(
    'VALIDATION_ERROR',
    `Expected limit to be an integer from 1 to ${LARGEST_LIMIT}, got ${limit}.`,
  )
}

function readCursor(cursor: string | undefined): number {
  if (cursor === undefined) return Number.POSITIVE_INFINITY
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor)
  throw new VaultError('VALIDATION_ERROR', 'Expected the cursor that the page before gave.')
}

function readTime(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const ms = /^\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-]\d{2}:\d{2}))?$/.test(text) ? Date.parse(text) : Number.NaN
  if (!Number.isNaN(ms)) return ms
  throw new VaultError(
    'VALIDATION_ERROR',
    `Expected ${name} to be an ISO 8601 time such as 2026-01-31T12:00:00Z.`,
  )
}
