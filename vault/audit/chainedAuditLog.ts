import type { Clock } from '../../core/ports/clock.ts'
import type { SealedRows } from '../disk/sealedRows.ts'
import type { VaultDatabase } from '../disk/vaultDatabase.ts'
import { VaultError } from '../errors/error.ts'
import type {
  AuditEntry,
  AuditEvent,
  AuditLog,
  AuditMark,
  AuditPage,
  AuditQuery,
  AuditVerdict,
  AuditWarning,
} from '../ports/audit.ts'
import { Alarms, FillRate, logWarnings, RefusalCounts } from './alarms.ts'
import {
  type AuditLimits,
  firstHash,
  KnownActs,
  LogTable,
  lastToDrop,
  mayHappenLocked,
  PARTS,
  queryLog,
  writeEntry,
} from './auditEntry.ts'
import { type AuditHead, assertNewest, isHeadOurs, readHead, writeHead } from './auditHead.ts'
import { checkTail, missing, runWithoutCodes } from './logTail.ts'
import { verifyLog } from './verifyLog.ts'

const ROLLUPS_EVERY_MS = 60_000
/**
 * Maximum rows that are dropped in one transaction. If the owner lowers the log's limit, there may be hundreds of thousands of
 * rows to wipe.
 */
const ROWS_DROPPED_AT_ONCE = 1_000
/** Maximum time from a change of the database until the head records it, in ms. */
const HEAD_LAG_MS = 250

const noLimits: AuditLimits = { maxBytes: Number.POSITIVE_INFINITY }

export interface AuditPlace {
  readonly database: VaultDatabase
  /** The sealed rows, which are open while the vault is unlocked. */
  readonly rows: SealedRows
  readonly headFile: string
  readonly clock: Clock
  /** True for a vault that is being created. In any other vault, a missing head means that it was removed. */
  readonly isNew?: boolean
  /** How much of the log is kept. The oldest entries beyond the limits are dropped. Absent: nothing is dropped. */
  readonly limits?: AuditLimits | undefined
}

/**
 * {@link AuditLog} in a table of the vault's database, with a head in a file beside it. Appending an entry computes one hash.
 *
 * If entries are missing at the end, or the head is not this vault's, the log continues after the highest number that was ever
 * used. If no entry records the damage, the log also skips one number, so that {@link verify} finds the gap.
 */
export class ChainedAuditLog implements AuditLog {
  readonly #place: AuditPlace
  readonly #table: LogTable
  readonly #limits: AuditLimits
  #key: Buffer | undefined
  /** The last entry that has a number, and the last entry on disk. */
  #end = { seq: 0, bytes: 0, hash: firstHash }
  #durable = this.#end
  #damage: string | undefined
  /** The entries without a keyed code at the end, which nothing authenticates yet. */
  #openRun: { readonly from: number; readonly to: number } | undefined
  /** The head that this process wrote last. */
  #written: AuditHead | undefined
  #headTimer: NodeJS.Timeout | undefined
  readonly #acts = new KnownActs()
  readonly #refusals = new RefusalCounts()
  #rollupsTimer: NodeJS.Timeout | undefined
  readonly #alarms = new Alarms(() => this.warnings)
  readonly #fillRate: FillRate
  #isUnwritable = false
  #isDropping = false
  /** Size of the log at which old entries are dropped next, in bytes. */
  #dropAtBytes: number

  constructor(place: AuditPlace) {
    this.#place = place
    this.#table = new LogTable(place.database)
    this.#limits = place.limits ?? noLimits
    this.#fillRate = new FillRate(this.#limits.maxBytes)
    const last = this.#table.last
    if (last !== undefined) this.#end = this.#durable = last
    this.#dropAtBytes = this.#end.bytes + this.#limits.maxBytes / PARTS
    const read = readHead(place.headFile)
    if (read.kind === 'damaged') this.#damage = 'the head beside the log was changed'
    if (read.kind === 'missing' && place.isNew !== true) this.#damage = 'the head beside the log is missing'
    if (read.kind === 'head') this.#compare(read.head, 'the head names')
    this.#openRun = runWithoutCodes(this.#table)
    place.database.join({
      committed: () => this.#onCommitted(),
      failed: () => {
        this.#end = this.#durable
        this.#noteWritable(false)
      },
    })
    this.#alarms.check()
  }

  get damage(): string | undefined {
    return this.#damage
  }

  get warnings(): readonly AuditWarning[] {
    const now = this.#place.clock.now()
    return logWarnings({
      damage: this.#damage,
      isUnwritable: this.#isUnwritable,
      refused: this.#refusals.unusual(now),
      isFilling: this.#fillRate.isFilling(now),
    })
  }

  onWarning(listener: (warning: AuditWarning) => void): () => void {
    return this.#alarms.listen(listener)
  }

  /**
   * Starts to write keyed codes. Checks the head and the newest entries.
   *
   * @param key the log keeps a copy
   * @throws `VAULT_CORRUPT` when the database is older than the head, before anything is written
   */
  unlock(key: Uint8Array): void {
    const { rows, headFile, database, isNew } = this.#place
    const read = readHead(headFile)
    const isOurs = read.kind === 'head' && isHeadOurs(key, read.head, read.mac)
    if (isOurs) assertNewest(database.name, rows.lineage, rows.state.counter, read.head)
    this.#key = Buffer.from(key)
    const { state } = rows
    this.#compare(state.log, "the vault's state names")
    const wrong = checkTail(this.#table, { state, lastSeq: this.#end.seq, key, acts: this.#acts })
    this.#damage ??= wrong
    if (isOurs) {
      // Nothing is lost, because the log has all entries beyond this head, and the next head replaces it.
      if (read.head.counter < state.head)
        this.#damage ??= `the head beside the log is older and names entry ${read.head.seq}`
    } else if (isNew !== true || read.kind !== 'missing' || this.#written !== undefined) {
      this.#damage ??=
        read.kind === 'missing'
          ? 'the head beside the log is missing'
          : 'the head beside the log was not written by this vault'
      // One number is skipped as a permanent record of the damage, because the next head replaces this one.
      this.#goOnAfter(this.#end.seq + 1)
    }
    if (this.#damage !== undefined) state.told = this.#end.seq
    this.#writeHead()
    this.#alarms.check()
    setImmediate(() => void this.dropOld().catch(() => undefined))
  }

  /** Writes an entry that states which entries were written while the vault was locked. It also authenticates their order. */
  async closeRun(): Promise<void> {
    const run = this.#openRun
    if (run === undefined || this.#key === undefined) return
    const which = run.from === run.to ? `entry ${run.from} was` : `entries ${run.from} to ${run.to} were`
    await this.append({
      agent: 'vault',
      action: 'CONFIG',
      status: 'APPROVED',
      note: `${which} written while the vault was locked`,
    })
  }

  hasAct(id: string): boolean {
    return this.#acts.has(id)
  }

  async appendRefusal(event: AuditEvent): Promise<void> {
    const first = this.#refusals.take(event, this.#place.clock.now())
    this.#alarms.check()
    this.#rollupsTimer ??= setInterval(() => void this.#sumUp(false), ROLLUPS_EVERY_MS).unref()
    if (first !== undefined) await this.append(first)
  }

  /** Writes entries for the counted refusals, and a head for the last entry. */
  async save(): Promise<void> {
    await this.#sumUp(true)
    const { database } = this.#place
    database.flush()
    this.#writeHead()
    // An empty change stores the progress of the head in the database.
    await database.change(() => {}).catch(() => {})
  }

  /** Writes the head and zeroes the key. */
  async lock(): Promise<void> {
    if (this.#key === undefined) return
    await this.save()
    this.#key?.fill(0)
    this.#key = undefined
  }

  async append(event: AuditEvent, canWait = false): Promise<AuditEntry> {
    if (this.#key === undefined && !mayHappenLocked(event)) throw new VaultError('VAULT_LOCKED')
    const { clock, database, rows } = this.#place
    const timestamp = new Date(clock.now()).toISOString()
    const { row, entry } = writeEntry(event, this.#end, timestamp, this.#key)
    const { seq, hash } = row
    this.#fillRate.note(row.bytes - this.#end.bytes, clock.now())
    this.#end = row
    this.#openRun = this.#key === undefined ? { from: this.#openRun?.from ?? seq, to: seq } : undefined
    await database.change(() => {
      this.#table.insert(row)
      if (rows.isOpen) rows.state.log = { ...rows.state.log, seq, hash }
    }, canWait)
    this.#acts.note(event)
    this.#headTimer ??= setTimeout(() => this.#writeHead(), HEAD_LAG_MS).unref()
    return entry
  }

  query(query: AuditQuery): Promise<AuditPage> {
    return queryLog(this.#table, query)
  }

  async verify(): Promise<AuditVerdict> {
    const { database, headFile, rows } = this.#place
    const key = this.#key && Buffer.from(this.#key)
    try {
      for (;;) {
        database.flush()
        const cut = this.#cut
        const verdict = await verifyLog({
          table: this.#table,
          lastSeq: this.#durable.seq,
          head: readHead(headFile),
          key,
          cut,
          written: this.#written,
          anchor: rows.isOpen ? rows.state.log : undefined,
        })
        // If entries were dropped meanwhile, they look as if they were missing, so the check runs again.
        if (verdict.ok || this.#cut?.seq === cut?.seq) return verdict
      }
    } finally {
      key?.fill(0)
    }
  }

  /**
   * Drops the oldest entries beyond the limits. Called on unlock and as the log grows. Does nothing while the vault is locked.
   */
  async dropOld(): Promise<void> {
    if (this.#isDropping || this.#key === undefined) return
    const { clock, database, rows } = this.#place
    this.#isDropping = true
    const key = Buffer.from(this.#key)
    try {
      const cut = lastToDrop(this.#table, this.#limits, clock.now())
      if (cut === undefined) return
      const before = this.#cut
      const { ok, reason } = await verifyLog({
        table: this.#table,
        lastSeq: cut.seq,
        head: undefined,
        key,
        cut: before,
      })
      // If the vault was locked meanwhile, the log cannot store its new first entry.
      if (this.#key === undefined) return
      const which = `entries ${(before?.seq ?? 0) + 1} to ${cut.seq} are dropped by its limits`
      const entry = this.append({
        agent: 'vault',
        action: 'CONFIG',
        status: ok ? 'APPROVED' : 'FAILED',
        note: `The log: ${which}.${ok ? '' : ` They were damaged: ${reason}.`}`,
      })
      for (let done = before?.seq ?? 0; done < cut.seq && this.#key !== undefined; ) {
        const part = this.#table.after(done, ROWS_DROPPED_AT_ONCE).at(-1)
        const { seq, hash } = part === undefined || part.seq > cut.seq ? cut : part
        const dropped = database.change(() => {
          this.#table.dropUpTo(seq)
          rows.state.log = { ...rows.state.log, cut: { seq, hash } }
        })
        await Promise.all([entry, dropped])
        done = seq
      }
      this.#writeHead()
    } finally {
      key.fill(0)
      this.#isDropping = false
    }
  }

  /** The last dropped entry. While the vault is locked, it comes from the head, which is not verified then. */
  get #cut(): AuditMark | undefined {
    const { rows, headFile } = this.#place
    if (rows.isOpen) return rows.state.log.cut
    const read = readHead(headFile)
    return read.kind === 'head' ? read.head.cut : undefined
  }

  #onCommitted(): void {
    this.#durable = this.#end
    this.#noteWritable(true)
    if (this.#end.bytes < this.#dropAtBytes) return
    this.#dropAtBytes = this.#end.bytes + this.#limits.maxBytes / PARTS
    setImmediate(() => void this.dropOld().catch(() => undefined))
  }

  #writeHead(): void {
    clearTimeout(this.#headTimer)
    this.#headTimer = undefined
    const { database, rows, headFile } = this.#place
    if (this.#key === undefined || !rows.isOpen || !database.isOurs()) return
    const { lineage, state } = rows
    const { seq, hash } = this.#durable
    const head = { lineage, counter: state.counter, seq, hash, cut: state.log.cut }
    try {
      writeHead(headFile, this.#key, head)
      this.#written = head
      state.head = head.counter
    } catch {
      // The database itself is on disk. The next head includes this change.
    }
  }

  /** Writes entries for refusals that were counted. If this fails, only the count of these refusals is lost. */
  async #sumUp(isAll: boolean): Promise<void> {
    if (this.#key === undefined) return
    const due = this.#refusals.due(this.#place.clock.now(), isAll)
    if (this.#refusals.isEmpty) {
      clearInterval(this.#rollupsTimer)
      this.#rollupsTimer = undefined
    }
    await Promise.all(due.map((event) => this.append(event).catch(() => undefined)))
  }

  /**
   * Compares the end of the log with a mark from elsewhere. The comparison shows whether entries are missing and whether the
   * last one was replaced.
   */
  #compare(mark: AuditMark, by: string): void {
    const [row] = this.#table.before(mark.seq + 1, 1)
    if (mark.seq > this.#end.seq) return this.#goOnAfter(mark.seq, mark.hash)
    if (row?.seq === mark.seq && row.hash !== mark.hash)
      this.#damage ??= `entry ${mark.seq} is not the one that ${by}`
  }

  /** No number up to this one is used again. */
  #goOnAfter(seq: number, hash = this.#end.hash): void {
    this.#damage ??= `${missing(this.#end.seq + 1, seq)} at the end`
    this.#end = this.#durable = { ...this.#end, seq, hash }
  }

  #noteWritable(isWritable: boolean): void {
    this.#isUnwritable = !isWritable
    this.#alarms.check()
  }
}
