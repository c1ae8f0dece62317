import { createHash, createHmac } from 'node:crypto'
import { setImmediate as others } from 'node:timers/promises'
import { damaged } from '../disk/databaseFile.ts'
import type { VaultDatabase } from '../disk/vaultDatabase.ts'
import { VaultError } from '../errors/error.ts'
import type { AuditEntry, AuditEvent, AuditPage, AuditQuery } from '../ports/audit.ts'

/** The hash before the first entry. */
export const firstHash = '0'.repeat(64)
const macBytes = 16
/** Size of a row on disk in addition to its body, in bytes: two hashes, a code, numbers. */
const ROW_OVERHEAD_BYTES = 100

/** One entry of the log as stored. */
export interface LogRow {
  readonly seq: number
  /** The hash of the previous entry. */
  readonly prev: string
  /** Size of the log on disk up to and including this entry, in bytes. */
  readonly bytes: number
  /** The entry's fields as JSON. */
  readonly body: Buffer
  /** SHA-256 of all fields above, in hex. */
  readonly hash: string
  /** The keyed code (HMAC) that authenticates the entry. Empty if the entry was written while the vault was locked. */
  readonly mac: string
}

/**
 * Maximum length of each text of an entry, in characters. Longer texts are cut. Without an entry, the log would hide the event.
 */
const longest: Readonly<Record<string, number>> = { note: 500, claimed: 500, found: 500 }
const LONGEST_TEXT = 256

/**
 * Creates the row of an entry.
 * @param before the previous row
 * @param key undefined while the vault is locked
 */
export function writeEntry(
  event: AuditEvent,
  before: { readonly seq: number; readonly bytes: number; readonly hash: string },
  timestamp: string,
  key: Uint8Array | undefined,
): { readonly row: LogRow; readonly entry: AuditEntry } {
  const fields = { timestamp, ...textsOf(event) }
  const body = Buffer.from(JSON.stringify(fields), 'utf8')
  const place = {
    seq: before.seq + 1,
    prev: before.hash,
    bytes: before.bytes + body.length + ROW_OVERHEAD_BYTES,
    body,
  }
  const hash = rowHash(place)
  const row = { ...place, hash, mac: key === undefined ? '' : macOf(key, hash) }
  return { row, entry: { seq: row.seq, ...fields, hash } as unknown as AuditEntry }
}

export function entryOf({ seq, body, hash }: LogRow): AuditEntry {
  return { seq, ...JSON.parse(body.toString('utf8')), hash }
}

/** Whether a row still matches its hash. */
export const isWhole = (row: LogRow): boolean => rowHash(row) === row.hash

/** HMAC-SHA256 of an entry's hash, truncated to 128 bits. */
export function macOf(key: Uint8Array, hash: string): string {
  return createHmac('sha256', key).update(`entry ${hash}`).digest().subarray(0, macBytes).toString('hex')
}

function rowHash({ seq, prev, bytes, body }: Omit<LogRow, 'hash' | 'mac'>): string {
  return createHash('sha256').update(`${prev} ${seq} ${bytes} `).update(body).digest('hex')
}

function textsOf(event: AuditEvent): Record<string, string> {
  const texts: Record<string, string> = {}
  for (const name of fieldNames) {
    const value = event[name]
    if (value === undefined) continue
    // Half a surrogate pair has no UTF-8 encoding, so the entry would have another hash after it is read.
    texts[name] = String(value)
      .slice(0, longest[name] ?? LONGEST_TEXT)
      .toWellFormed()
  }
  return texts
}

const fieldNames = [
  'agent',
  'action',
  'status',
  'amount',
  'currency',
  'scope',
  'recipient',
  'chain',
  'approvalId',
  'decisionHash',
  'requestId',
  'act',
  'code',
  'note',
  'claimed',
  'found',
] as const satisfies readonly (keyof AuditEvent)[]

/** The note of a password change, which also works while the vault is locked. */
export const passwordChanged = 'the password changed'

/**
 * The notes of two other events that can occur while the vault is locked: the owner opens the approvals page, or signs out all
 * browser sessions.
 */
export const pageOpened = 'the approvals page was opened'
export const pagesSignedOut = 'every approvals page was signed out'

/**
 * Whether an event can occur while the vault is locked. Only the entry of such an event may have no keyed code. The log does
 * not write any other entry without one, and verification reports such an entry as bad. A program with write access to the
 * files could forge an entry of this kind, so these entries are reported as unauthenticated.
 */
export function mayHappenLocked({ action, status, note }: AuditEvent): boolean {
  if (action === 'UNLOCK') return status === 'DENIED' || status === 'FAILED'
  if (action === 'LOCK') return status === 'APPROVED'
  if (action !== 'CONFIG') return false
  if (note === passwordChanged) return status === 'APPROVED' || status === 'DENIED'
  return (note === pageOpened || note === pagesSignedOut) && status === 'APPROVED'
}

/** When an entry was written, in ms since 1970. NaN for a damaged entry. */
export function readTimestamp({ body }: LogRow): number {
  return Date.parse(/^\{"timestamp":"([^"]{24})"/.exec(body.toString('latin1', 0, 64))?.[1] ?? '')
}

const MAX_ACTS = 10_000

/** The actions in the newest entries, which prevent that an action is logged twice. See `AuditLog.hasAct`. */
export class KnownActs {
  readonly #ids = new Set<string>()

  has(id: string): boolean {
    return this.#ids.has(id)
  }

  note({ act, approvalId, status }: AuditEvent): void {
    if (act !== undefined) this.#add(act)
    if (approvalId !== undefined && status === 'APPROVED') this.#add(approvalId)
  }

  #add(id: string): void {
    this.#ids.delete(id)
    this.#ids.add(id)
    if (this.#ids.size > MAX_ACTS) this.#ids.delete(this.#ids.values().next().value!)
  }
}

/** Maximum rows that are read in one turn of the event loop. They take a few milliseconds. */
const ROWS_PER_TURN = 500

interface StoredRow {
  readonly seq: number
  readonly prev: Uint8Array
  readonly bytes: number
  readonly body: Uint8Array
  readonly hash: Uint8Array
  readonly mac: Uint8Array
}

/** The log's rows. */
export class LogTable {
  readonly #database: VaultDatabase

  constructor(database: VaultDatabase) {
    this.#database = database
  }

  insert({ seq, prev, bytes, body, hash, mac }: LogRow): void {
    this.#database
      .prepare('INSERT INTO log (seq, prev, bytes, body, hash, mac) VALUES (?, ?, ?, ?, ?, ?)')
      .run(seq, Buffer.from(prev, 'hex'), bytes, body, Buffer.from(hash, 'hex'), Buffer.from(mac, 'hex'))
  }

  get last(): LogRow | undefined {
    return this.before(Number.MAX_SAFE_INTEGER, 1)[0]
  }

  /** The rows after a number, oldest first. */
  after(seq: number, limit = ROWS_PER_TURN): LogRow[] {
    return this.#rows('SELECT * FROM log WHERE seq > ? ORDER BY seq LIMIT ?', seq, limit)
  }

  /** The rows before a number, newest first. */
  before(seq: number, limit = ROWS_PER_TURN): LogRow[] {
    return this.#rows('SELECT * FROM log WHERE seq < ? ORDER BY seq DESC LIMIT ?', seq, limit)
  }

  dropUpTo(seq: number): void {
    this.#database.prepare('DELETE FROM log WHERE seq <= ?').run(seq)
  }

  /**
   * The last row for which `isTrue` returns true, by a binary search. The rows must be sorted: `isTrue` returns true for all
   * rows up to some row and false for all later rows. Undefined if it returns false for all rows.
   */
  lastWhere(isTrue: (row: LogRow) => boolean): LogRow | undefined {
    let found: LogRow | undefined
    let from = (this.after(0, 1)[0]?.seq ?? 1) - 1
    let to = this.last?.seq ?? 0
    while (from < to) {
      const middle = Math.ceil((from + to) / 2)
      const row = this.before(middle + 1, 1)[0]
      if (row === undefined || !isTrue(row)) to = middle - 1
      else {
        found = row
        from = middle
      }
    }
    return found
  }

  #rows(sql: string, ...values: number[]): LogRow[] {
    const read = this.#database.read(() => this.#database.prepare(sql).all(...values))
    const rows = read as unknown as StoredRow[]
    const wiped = rows.find((row) => !isStored(row))
    if (wiped !== undefined)
      throw damaged(this.#database.file, `entry ${wiped.seq} of its log cannot be read`)
    return rows.map(({ seq, prev, bytes, body, hash, mac }) => ({
      seq,
      prev: bytesOf(prev).toString('hex'),
      bytes,
      body: bytesOf(body),
      hash: bytesOf(hash).toString('hex'),
      mac: bytesOf(mac).toString('hex'),
    }))
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength)

/** A wiped page of the database can contain rows that the table's schema does not allow. */
const isStored = ({ bytes, prev, body, hash, mac }: StoredRow): boolean =>
  Number.isSafeInteger(bytes) && [prev, body, hash, mac].every((column) => column instanceof Uint8Array)

/** How much of the log is kept. */
export interface AuditLimits {
  readonly maxBytes: number
  /** Maximum age of an entry, in ms. Undefined: only the size limit applies. */
  readonly keepMs?: number | undefined
}

/** Old entries are dropped in steps of 1/PARTS of the log, in bytes or in time. */
export const PARTS = 64

/** The newest row that has to be dropped. Undefined if all rows stay. */
export function lastToDrop(
  table: LogTable,
  { maxBytes, keepMs }: AuditLimits,
  nowMs: number,
): LogRow | undefined {
  const first = table.after(0, 1)[0]
  const last = table.last
  if (first === undefined || last === undefined) return undefined
  const isBig = last.bytes - first.bytes > maxBytes
  const cachedBytes = maxBytes - maxBytes / PARTS
  const big = isBig
    ? table.lastWhere(({ seq, bytes }) => seq < last.seq && last.bytes - bytes > cachedBytes)
    : undefined
  const isOld = keepMs !== undefined && nowMs - readTimestamp(first) > keepMs + keepMs / PARTS
  const old = isOld
    ? table.lastWhere((row) => row.seq < last.seq && nowMs - readTimestamp(row) > keepMs)
    : undefined
  return big !== undefined && (old === undefined || old.seq < big.seq) ? big : old
}

const DEFAULT_LIMIT = 100
const LARGEST_LIMIT = 500
/** Maximum rows that a query reads. A filter with few matches returns short pages instead of taking long. */
const MAX_ROWS = 20_000
/** The cost of a row that a filter skips without parsing it, relative to a parsed row. */
const UNREAD_COST = 0.1

/** One page of the log, newest first. */
export async function queryLog(table: LogTable, query: AuditQuery): Promise<AuditPage> {
  const limit = readLimit(query.limit)
  const matches = createFilter(query)
  const needles = needlesOf(query)
  const entries: AuditEntry[] = []
  let before = readCursor(query.cursor)
  for (let cost = 0; cost < MAX_ROWS; ) {
    const rows = table.before(before)
    if (rows.length === 0) return { entries, cursor: undefined }
    for (const row of rows) {
      before = row.seq
      if (!needles.every((needle) => row.body.includes(needle))) {
        cost += UNREAD_COST
        continue
      }
      cost++
      // A damaged entry is skipped, so that it does not prevent reading the others. Verification reports it.
      if (!isWhole(row)) continue
      const entry = entryOf(row)
      if (!matches(entry)) continue
      entries.push(entry)
      if (entries.length === limit) return { entries, cursor: before > 1 ? String(before) : undefined }
    }
    await others()
  }
  return { entries, cursor: String(before) }
}

/**
 * Byte strings that the body of a matching entry contains. They have quotes, so a text inside another text does not match,
 * because its quotes are escaped.
 */
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
  if (cursor === undefined) return Number.MAX_SAFE_INTEGER
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor)
  throw new VaultError('VALIDATION_ERROR', 'Expected the cursor from the previous page.')
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
