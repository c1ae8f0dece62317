import { closeSync, mkdirSync, openSync, rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
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
import { fileMode, flushFolder, folderMode } from '../storage/files.ts'
import { GroupWriter, type WriteTarget } from '../storage/groupWriter.ts'
import { Alarms, logWarnings } from './alarms.ts'
import { type AuditHead, type HeadRead, headMac, isHeadOurs, readHead, writeHead } from './auditHead.ts'
import { firstHash, macOf, writeLine } from './auditLine.ts'
import { type AuditLimits, oldOnes } from './dropOld.ts'
import { KnownActs } from './knownActs.ts'
import { openSegment, type TailEntry } from './openSegment.ts'
import { queryLog } from './queryLog.ts'
import { RefusalSums } from './refusalSums.ts'
import { segmentFile, segmentsIn } from './segments.ts'
import { verifyLog } from './verifyLog.ts'
import { mayHappenLocked } from './whileLocked.ts'

const segmentBytes = 4 << 20
/** How far the head may lag behind the log: entries of this time are on disk, and vouched for by their own codes alone. */
const headLagMs = 250
const rememberEveryMs = 60_000
const sumsEveryMs = 60_000
const hourMs = 3_600_000
/** A log that would be full in less than this is told of. */
const leastHours = 7 * 24

const noLimits: AuditLimits = { maxBytes: Number.POSITIVE_INFINITY }

export interface AuditPlace {
  /** Made when missing. */
  readonly folder: string
  readonly headFile: string
  readonly clock: Clock
  /** True for a vault that is being made. Of every other one, a log without a head was tampered with. */
  readonly isNew?: boolean
  /**
   * Told now and then, while unlocked, how far the log has come, to keep it where an older copy of the log does not reach:
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
  readonly #segmentBytes: number
  #writer: GroupWriter
  #seq: number
  #hash: string
  /** The last entry on disk. */
  #durable: AuditMark
  /** Entries on their way to disk. */
  #waiting: AuditMark[] = []
  /** Entries that were there on opening and that the head did not reach; looked at on the first unlocking. */
  #tail: readonly TailEntry[]
  /** The entries at the end that nobody vouches for yet. */
  #openRun: { readonly from: number; readonly to: number } | undefined
  /** The next entry begins a file. */
  #mustGoOnInNew = false
  /** What was dropped because it was old, as an authentic head says. */
  #cut: AuditMark | undefined
  /** The head as it was written last. */
  #written: AuditHead | undefined
  /** The last entry that a vault of version 1 wrote. */
  #firstVersion: AuditMark | undefined
  /** What was remembered last. */
  #anchor: AuditMark | undefined
  #rememberedAtMs = 0
  #key: Buffer | undefined
  #damage: string | undefined
  #headTimer: NodeJS.Timeout | undefined
  readonly #limits: AuditLimits
  readonly #acts = new KnownActs()
  readonly #refusals = new RefusalSums()
  #sumsTimer: NodeJS.Timeout | undefined
  readonly #alarms = new Alarms(() => this.warnings)
  /** What was written in the hour that began at `sinceMs`. */
  #hour = { sinceMs: 0, bytes: 0 }
  #isUnwritable = false
  /** Queries and checks under way: a file that they may come to is not removed. */
  #readers = 0
  #mustDropOld = false
  #isDropping = false

  static open(place: AuditPlace): ChainedAuditLog {
    return new ChainedAuditLog(place)
  }

  private constructor(place: AuditPlace) {
    this.#place = place
    this.#segmentBytes = place.segmentBytes ?? segmentBytes
    this.#limits = place.limits ?? noLimits
    const { folder, headFile } = place
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
    this.#seq = Math.max(last.takenSeq, head.seq)
    this.#hash = this.#seq === head.seq && head.seq > last.lastSeq ? head.hash : last.lastHash
    this.#durable = { seq: this.#seq, hash: this.#hash }
    this.#tail = last.tail
    const lastWithMac = last.tail.findLastIndex(({ mac }) => mac !== '')
    const run = last.tail.slice(lastWithMac + 1)
    if (run.length > 0) this.#openRun = { from: run[0]!.seq, to: run.at(-1)!.seq }
    const target = goesOn
      ? { descriptor: openSync(last.file!, 'r+', fileMode), offset: last.bytes }
      : this.#newSegment(this.#seq + 1)
    this.#writer = new GroupWriter('the log', target, {
      redirect: (_batch, offset) => this.#redirect(offset),
      written: (count) => this.#note(count),
      failed: () => this.#forget(),
    })
    this.#alarms.look()
  }

  get damage(): string | undefined {
    return this.#damage
  }

  /** The last entry on disk. */
  get last(): AuditMark {
    return this.#durable
  }

  get warnings(): readonly AuditWarning[] {
    const now = this.#place.clock.now()
    return logWarnings({
      damage: this.#damage,
      isUnwritable: this.#isUnwritable,
      refused: this.#refusals.unusual(now),
      isFilling:
        now - this.#hour.sinceMs < 2 * hourMs && this.#hour.bytes * leastHours > this.#limits.maxBytes,
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
   * @param firstVersion the last entry of the time when this was a vault of version 1
   */
  unlock(key: Uint8Array, anchor?: AuditMark, firstVersion?: AuditMark): void {
    this.#key = Buffer.from(key)
    this.#anchor = anchor
    this.#firstVersion = firstVersion
    const read = readHead(this.#place.headFile)
    const isOurs = read.kind === 'head' && isHeadOurs(key, read.head, read.mac)
    if (isOurs) this.#cut = read.head.cut
    const isNew = this.#place.isNew === true && this.#written === undefined && read.kind === 'missing'
    if (!isNew) this.#check(isOurs, read)
    this.#acts.read(this.#segments(), key)
    this.#writeHead()
    this.#remember()
    this.#alarms.look()
    setImmediate(() => void this.dropOld().catch(() => undefined))
  }

  /** Tells in the log that entries were written while locked, and by that vouches for their order. */
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
    this.#alarms.look()
    this.#sumsTimer ??= setInterval(() => void this.#sumUp(false), sumsEveryMs).unref()
    if (first !== undefined) await this.append(first)
  }

  /** Writes what was counted, and brings the head and whatever else remembers the log up to the last entry. */
  async save(): Promise<void> {
    await this.#sumUp(true)
    await this.#writer.drain()
    this.#writeHead()
    this.#remember()
  }

  /** Writes the head and zeroes the key. */
  async lock(): Promise<void> {
    await this.#sumUp(true)
    await this.#writer.drain()
    this.#writeHead()
    this.#key?.fill(0)
    this.#key = undefined
  }

  async close(): Promise<void> {
    await this.lock()
    await this.#writer.close()
  }

  async append(event: AuditEvent): Promise<AuditEntry> {
    if (this.#key === undefined && !mayHappenLocked(event)) throw new VaultError('VAULT_LOCKED')
    const timestamp = new Date(this.#place.clock.now()).toISOString()
    const { line, entry } = writeLine(event, { seq: this.#seq + 1, prev: this.#hash, timestamp }, this.#key)
    this.#seq = entry.seq
    this.#hash = entry.hash
    this.#openRun =
      this.#key === undefined ? { from: this.#openRun?.from ?? entry.seq, to: entry.seq } : undefined
    this.#waiting.push({ seq: entry.seq, hash: entry.hash })
    this.#grow(line.length)
    await this.#writer.append(line)
    this.#acts.note(event)
    this.#headTimer ??= setTimeout(() => this.#writeHead(), headLagMs).unref()
    return entry
  }

  query(query: AuditQuery): Promise<AuditPage> {
    return this.#reading(() => queryLog(this.#segments(), this.#durable.seq, query))
  }

  verify(): Promise<AuditVerdict> {
    return this.#reading(() => this.#verify())
  }

  /**
   * Drops the oldest files above the limits, once the head says where the log begins then. Happens by itself on unlocking
   * and when a file is full; while locked it does nothing.
   */
  async dropOld(): Promise<void> {
    if (this.#isDropping || this.#key === undefined) return
    this.#isDropping = true
    const key = Buffer.from(this.#key)
    try {
      this.#removeDropped()
      const old = oldOnes(this.#segments(), this.#limits, this.#place.clock.now())
      // A file that is not full may be old, too: the next entry begins another, and the one after that finds this one.
      this.#mustGoOnInNew ||= old.isNewestAging
      const { cut, dropped } = old
      if (cut === undefined) return
      const head = { kind: 'head', head: cut, mac: headMac(key, cut) } as const
      const { ok, reason } = await this.#reading(() =>
        verifyLog({
          segments: dropped,
          lastSeq: cut.seq,
          head,
          key,
          cut: this.#cut,
          firstVersion: this.#firstVersion,
        }),
      )
      const which = `entries ${(this.#cut?.seq ?? 0) + 1} to ${cut.seq} are dropped by its limits`
      await this.append({
        agent: 'vault',
        action: 'CONFIG',
        status: ok ? 'APPROVED' : 'FAILED',
        note: `The log: ${which}.${ok ? '' : ` They were damaged: ${reason}.`}`,
      })
      this.#cut = cut
      this.#writeHead()
      this.#removeDropped()
    } finally {
      key.fill(0)
      this.#isDropping = false
    }
  }

  async #verify(): Promise<AuditVerdict> {
    await this.#writer.drain()
    const key = this.#key === undefined ? undefined : Buffer.from(this.#key)
    try {
      return await verifyLog({
        segments: segmentsIn(this.#place.folder),
        lastSeq: this.#durable.seq,
        head: readHead(this.#place.headFile),
        key,
        cut: this.#cutNow(),
        written: this.#written,
        anchor: this.#anchor,
        firstVersion: this.#firstVersion,
      })
    } finally {
      key?.fill(0)
    }
  }

  /** The head and then the files up to the last entry on disk, named as they stand in the vault's folder. */
  async *exportFiles(): AsyncGenerator<{ readonly name: string; readonly bytes: Buffer }> {
    await this.#writer.drain()
    this.#writeHead()
    const { folder, headFile } = this.#place
    yield { name: basename(headFile), bytes: await readFile(headFile) }
    for (const { file } of this.#segments()) {
      const bytes = await readFile(file)
      yield {
        name: `${basename(folder)}/${basename(file)}`,
        bytes: bytes.subarray(0, bytes.lastIndexOf(10) + 1),
      }
    }
  }

  async #reading<T>(read: () => Promise<T>): Promise<T> {
    this.#readers++
    try {
      return await read()
    } finally {
      this.#readers--
    }
  }

  /** Only what the head on disk does not want any more. */
  #removeDropped(): void {
    const cutSeq = this.#written?.cut?.seq
    if (cutSeq === undefined || this.#readers > 0) return
    for (const { file, firstSeq } of segmentsIn(this.#place.folder)) if (firstSeq <= cutSeq) rmSync(file)
  }

  /** What was counted and has no entry. A count that can't be written is lost: it is of what was refused. */
  async #sumUp(isAll: boolean): Promise<void> {
    if (this.#key === undefined) return
    const due = this.#refusals.due(this.#place.clock.now(), isAll)
    if (this.#refusals.isEmpty) {
      clearInterval(this.#sumsTimer)
      this.#sumsTimer = undefined
    }
    await Promise.all(due.map((event) => this.append(event).catch(() => undefined)))
  }

  /** Looks at everything that could not be looked at without the key. */
  #check(isOurs: boolean, read: HeadRead): void {
    const foreign = this.#foreignTail()
    this.#damage ??= foreign
    const anchorSeq = Math.max(this.#anchor?.seq ?? 0, this.#written?.seq ?? 0)
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
    this.#goOnAfter(Math.max(anchorSeq, this.#seq + 1))
  }

  /** What is wrong with the entries that the head does not reach. */
  #foreignTail(): string | undefined {
    const tail = this.#tail
    this.#tail = []
    const lateUntil = this.#firstVersion?.seq ?? 0
    const wrong = tail.find(({ seq, mac, hash, mayBeWithoutMac, mayHaveComeLate }) =>
      mac === ''
        ? !(mayBeWithoutMac || (mayHaveComeLate && seq <= lateUntil))
        : mac !== macOf(this.#key!, hash),
    )
    if (wrong === undefined) return undefined
    return wrong.mac === ''
      ? `entry ${wrong.seq} has no code of this vault`
      : `entry ${wrong.seq} was not written by this vault`
  }

  /** No number up to this one is given any more. */
  #goOnAfter(seq: number): void {
    if (seq <= this.#seq) return
    this.#damage ??= `entries ${this.#seq + 1} to ${seq} are missing at the end`
    this.#seq = seq
    this.#durable = { seq, hash: this.#hash }
    this.#mustGoOnInNew = true
  }

  /** The log's files; what was dropped, and is still there because a crash came between, is none of them. */
  #segments() {
    const cutSeq = this.#cutNow()?.seq ?? 0
    return segmentsIn(this.#place.folder).filter(({ firstSeq }) => firstSeq > cutSeq)
  }

  /** While locked, the head is taken at its word. */
  #cutNow(): AuditMark | undefined {
    if (this.#key !== undefined || this.#cut !== undefined) return this.#cut
    const read = readHead(this.#place.headFile)
    return read.kind === 'head' ? read.head.cut : undefined
  }

  #writeHead(): void {
    clearTimeout(this.#headTimer)
    this.#headTimer = undefined
    if (this.#key === undefined) return
    const head = { ...this.#durable, cut: this.#cut }
    try {
      writeHead(this.#place.headFile, this.#key, head)
      this.#written = head
      if (this.#place.clock.now() - this.#rememberedAtMs >= rememberEveryMs) this.#remember()
    } catch {
      // The log itself is on disk; a head that lags is caught up by the next one.
    }
  }

  /** Only what the head says, too: a head that is behind this is one from before. */
  #remember(): void {
    if (this.#key === undefined || this.#written === undefined) return
    this.#rememberedAtMs = this.#place.clock.now()
    const { seq, hash } = this.#written
    if (seq === this.#anchor?.seq) return
    this.#anchor = { seq, hash }
    this.#place.remember?.(this.#anchor)
  }

  #grow(bytes: number): void {
    const now = this.#place.clock.now()
    if (now - this.#hour.sinceMs >= hourMs || now < this.#hour.sinceMs) this.#hour = { sinceMs: now, bytes }
    else this.#hour.bytes += bytes
  }

  /** The first of what waits are on disk. */
  #note(count: number): void {
    this.#durable = this.#waiting.splice(0, count).at(-1)!
    this.#isUnwritable = false
    this.#alarms.look()
    if (!this.#mustDropOld) return
    this.#mustDropOld = false
    setImmediate(() => void this.dropOld().catch(() => undefined))
  }

  /** Nothing of what waits is on disk: its numbers are given again. */
  #forget(): undefined {
    this.#waiting = []
    this.#seq = this.#durable.seq
    this.#hash = this.#durable.hash
    this.#isUnwritable = true
    this.#alarms.look()
  }

  #redirect(offset: number): WriteTarget | undefined {
    if (offset < this.#segmentBytes && !this.#mustGoOnInNew) return undefined
    const target = this.#newSegment(this.#waiting[0]!.seq)
    this.#mustGoOnInNew = false
    this.#mustDropOld = true
    return target
  }

  #newSegment(firstSeq: number): WriteTarget {
    const file = segmentFile(this.#place.folder, firstSeq)
    const descriptor = openSync(file, 'wx', fileMode)
    try {
      flushFolder(dirname(file))
    } catch (error) {
      closeSync(descriptor)
      rmSync(file, { force: true })
      throw error
    }
    return { descriptor, offset: 0 }
  }
}

/** The newest file that has an entry; an empty one that a crash left is removed. */
function openNewest(folder: string, head: AuditHead) {
  for (const segment of segmentsIn(folder).toReversed()) {
    const prev = segment.firstSeq === 1 ? firstHash : undefined
    const opened = openSegment(segment, prev, head)
    if (opened.lastHash === undefined && opened.damage === undefined) {
      rmSync(segment.file)
      continue
    }
    return { ...opened, lastHash: opened.lastHash ?? firstHash, file: segment.file }
  }
  const none = { seq: 0, hash: firstHash }
  // Dropped whole by the limits on its size: what is left is what the head says of it.
  const { seq, hash } = head.cut?.seq === head.seq ? head : none
  return {
    lastSeq: seq,
    lastHash: hash,
    takenSeq: seq,
    bytes: 0,
    tail: [],
    damage: undefined,
    file: undefined,
  }
}
