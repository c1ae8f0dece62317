import { mkdirSync } from 'node:fs'
import type { Clock } from '../../core/ports/clock.ts'
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
import { folderMode } from '../storage/disk/files.ts'
import { Alarms, FillRate, logWarnings } from './alarms.ts'
import { type AuditHead, readHead } from './auditHead.ts'
import { type AuditLine, firstHash, macOf, mayHappenLocked, writeLine } from './auditLine.ts'
import type { AuditLimits } from './dropOld.ts'
import { type FoundHead, KeptHead } from './keptHead.ts'
import { KnownActs } from './knownActs.ts'
import { LogEnd } from './logEnd.ts'
import { LogFiles } from './logFiles.ts'
import { foreignEntry, openNewest, type TailEntry } from './openSegment.ts'
import { RefusalSums } from './refusalSums.ts'

const SEGMENT_BYTES = 4 << 20
const SUMS_EVERY_MS = 60_000

const noLimits: AuditLimits = { maxBytes: Number.POSITIVE_INFINITY }

export interface AuditPlace {
  /** Made when missing. */
  readonly folder: string
  readonly headFile: string
  readonly clock: Clock
  /** Whether this process still has the vault's folder. Left out: it has. */
  readonly isOurs?: (() => boolean) | undefined
  /** How far the other files of the vault have come, for each entry to keep. */
  readonly files?: () => string | undefined
  /** True for a vault that is being made. Of every other one, a log without a head was tampered with. */
  readonly isNew?: boolean
  /**
   * Told with each head, while unlocked, how far the log has come, to keep it where an older copy of the log does not reach:
   * {@link ChainedAuditLog.unlock} wants the last one back. A failure is its own to bear.
   */
  readonly remember?: (mark: AuditMark) => void
  /** After how many bytes the log goes on in a new file. */
  readonly segmentBytes?: number
  /** How much of it is kept; whole files of the oldest entries are dropped above it. Left out, nothing is dropped. */
  readonly limits?: AuditLimits
}

/**
 * {@link AuditLog} in append-only files of a few MiB. Opening reads the newest file and the head; appending hashes one
 * entry and writes it.
 *
 * Where the newest file or the head shows damage, the log goes on in a new file after every number that was ever given,
 * and after one more where no entry tells of the damage, so that the gap stays for {@link verify} to name.
 */
export class ChainedAuditLog implements AuditLog {
  readonly #place: AuditPlace
  readonly #end: LogEnd
  readonly #head: KeptHead
  readonly #files: LogFiles
  #damage: string | undefined
  /** The last entry that says how far the other files had come, of those that were there on opening. */
  #lastOfFiles: AuditLine | undefined
  /** The same of the entries of this process. */
  #filesSaid: string | undefined
  /** Entries that were there on opening and that the head did not reach; looked at on the first unlocking. */
  #tail: readonly TailEntry[]
  /** The entries at the end that nobody vouches for yet. */
  #openRun: { readonly from: number; readonly to: number } | undefined
  readonly #acts = new KnownActs()
  readonly #refusals = new RefusalSums()
  #sumsTimer: NodeJS.Timeout | undefined
  readonly #alarms = new Alarms(() => this.warnings)
  readonly #fillRate: FillRate
  #isUnwritable = false

  static open(place: AuditPlace): ChainedAuditLog {
    return new ChainedAuditLog(place)
  }

  private constructor(place: AuditPlace) {
    this.#place = place
    const { folder, headFile, clock, remember, limits = noLimits } = place
    this.#fillRate = new FillRate(limits.maxBytes)
    mkdirSync(folder, { recursive: true, mode: folderMode })
    const read = readHead(headFile)
    const head: AuditHead = read.kind === 'head' ? read.head : { seq: 0, hash: firstHash }
    const last = openNewest(folder, head)
    this.#damage = last.damage
    if (read.kind === 'damaged') this.#damage ??= 'the head beside the log was changed'
    if (read.kind === 'missing' && place.isNew !== true) this.#damage ??= 'the head beside the log is missing'
    if (head.seq > last.takenSeq)
      this.#damage ??= `entries ${last.lastSeq + 1} to ${head.seq} are missing at the end`
    const goesOn = last.file !== undefined && last.damage === undefined && head.seq <= last.takenSeq
    const seq = Math.max(last.takenSeq, head.seq)
    const hash = seq === head.seq && head.seq > last.lastSeq ? head.hash : last.lastHash
    this.#tail = last.tail
    this.#lastOfFiles = last.lastOfFiles
    const lastWithMac = last.tail.findLastIndex(({ mac }) => mac !== '')
    const run = last.tail.slice(lastWithMac + 1)
    if (run.length > 0) this.#openRun = { from: run[0]!.seq, to: run.at(-1)!.seq }
    const file = goesOn ? { name: last.file!, bytes: last.bytes } : undefined
    this.#end = new LogEnd(
      folder,
      place.segmentBytes ?? SEGMENT_BYTES,
      { seq, hash, file },
      {
        isOurs: place.isOurs,
        written: (isNewFile) => {
          this.#noteWritable(true)
          if (isNewFile) setImmediate(() => void this.dropOld().catch(() => undefined))
        },
        failed: () => this.#noteWritable(false),
      },
    )
    this.#head = new KeptHead(headFile, () => this.#end.durable, remember, place.isOurs)
    this.#files = new LogFiles({ folder, headFile, clock, limits }, this.#head, this.#end)
    this.#alarms.look()
  }

  get damage(): string | undefined {
    return this.#damage
  }

  /** The last entry on disk. */
  get last(): AuditMark {
    return this.#end.durable
  }

  /** What the last entry that was written with this key says of the other files; undefined where none says it. */
  lastFiles(key: Uint8Array): string | undefined {
    const line = this.#lastOfFiles
    if (this.#filesSaid !== undefined) return this.#filesSaid
    return line !== undefined && line.mac === macOf(key, line.hash) ? line.files : undefined
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
   * From now on keyed codes are written. The head, and what was written behind it, is checked.
   *
   * @param key copied
   * @param anchor what {@link AuditPlace.remember} was told last
   */
  unlock(key: Uint8Array, anchor?: AuditMark): void {
    const isNew = this.#place.isNew === true && this.#head.written === undefined
    const found = this.#head.unlock(key, anchor)
    if (!isNew || found.read.kind !== 'missing') this.#check(key, found)
    this.#acts.read(this.#files.segments(), key)
    this.#head.write()
    this.#alarms.look()
    setImmediate(() => void this.dropOld().catch(() => undefined))
  }

  /** Tells in the log that entries were written while locked, and by that vouches for their order. */
  async closeRun(): Promise<void> {
    const run = this.#openRun
    if (run === undefined || this.#head.key === undefined) return
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
    this.#alarms.look()
    this.#sumsTimer ??= setInterval(() => void this.#sumUp(false), SUMS_EVERY_MS).unref()
    if (first !== undefined) await this.append(first)
  }

  /** Writes what was counted, and brings the head and whatever else remembers the log up to the last entry. */
  async save(): Promise<void> {
    await this.#sumUp(true)
    await this.#end.drain()
    this.#head.write()
  }

  /** Writes the head and zeroes the key. */
  async lock(): Promise<void> {
    await this.#sumUp(true)
    await this.#end.drain()
    this.#head.write()
    this.#head.lock()
  }

  async close(): Promise<void> {
    await this.lock()
    await this.#end.close()
  }

  async append(event: AuditEvent): Promise<AuditEntry> {
    if (this.#head.key === undefined && !mayHappenLocked(event)) throw new VaultError('VAULT_LOCKED')
    const timestamp = new Date(this.#place.clock.now()).toISOString()
    const { key } = this.#head
    const { entry, bytes, onDisk } = this.#end.append((at) => {
      const files = key && this.#place.files?.()
      this.#filesSaid = files ?? this.#filesSaid
      return writeLine(event, { ...at, timestamp }, key, files)
    })
    this.#openRun = key === undefined ? { from: this.#openRun?.from ?? entry.seq, to: entry.seq } : undefined
    this.#fillRate.note(bytes, this.#place.clock.now())
    await onDisk
    this.#acts.note(event)
    this.#head.writeSoon()
    return entry
  }

  query(query: AuditQuery): Promise<AuditPage> {
    return this.#files.query(query)
  }

  verify(): Promise<AuditVerdict> {
    return this.#files.verify()
  }

  /**
   * Drops the oldest files above the limits, once the head says where the log begins then. Happens by itself on unlocking
   * and when a file is full; while locked it does nothing.
   */
  dropOld(): Promise<void> {
    return this.#files.dropOld((event) => this.append(event))
  }

  /** The head and then the files up to the last entry on disk, named as they stand in the vault's folder. */
  exportFiles(): AsyncGenerator<{ readonly name: string; readonly bytes: Buffer }> {
    return this.#files.export()
  }

  /** What was counted and has no entry. A count that can't be written is lost: it is of what was refused. */
  async #sumUp(isAll: boolean): Promise<void> {
    if (this.#head.key === undefined) return
    const due = this.#refusals.due(this.#place.clock.now(), isAll)
    if (this.#refusals.isEmpty) {
      clearInterval(this.#sumsTimer)
      this.#sumsTimer = undefined
    }
    await Promise.all(due.map((event) => this.append(event).catch(() => undefined)))
  }

  /** Looks at everything that could not be looked at without the key. */
  #check(key: Uint8Array, { read, isOurs, anchorSeq }: FoundHead): void {
    const foreign = foreignEntry(this.#tail, key)
    this.#tail = []
    this.#damage ??= foreign
    if (isOurs) {
      this.#goOnAfter(anchorSeq)
      // The next head replaces it, and the entries that it does not name are all there: nothing is lost.
      if (read.kind === 'head' && read.head.seq < anchorSeq)
        this.#damage ??= `the head beside the log is an older one: it names entry ${read.head.seq}, and there were ${anchorSeq}`
      return
    }
    this.#damage ??=
      read.kind === 'missing'
        ? 'the head beside the log is missing'
        : 'the head beside the log was not written by this vault'
    // The next head replaces it, so one number is left out, and tells of it for good.
    this.#goOnAfter(Math.max(anchorSeq, this.#end.seq + 1))
  }

  /** No number up to this one is given any more. */
  #goOnAfter(seq: number): void {
    if (seq <= this.#end.seq) return
    this.#damage ??= `entries ${this.#end.seq + 1} to ${seq} are missing at the end`
    this.#end.goOnAfter(seq)
  }

  #noteWritable(isWritable: boolean): void {
    this.#isUnwritable = !isWritable
    this.#alarms.look()
  }
}
