import { mkdirSync, openSync, rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import type { Clock } from '../../core/ports/clock.ts'
import type { AuditEntry, AuditEvent, AuditLog, AuditPage, AuditQuery, AuditVerdict } from '../ports/audit.ts'
import { fileMode, flushFolder, folderMode } from '../storage/files.ts'
import { GroupWriter, type WriteTarget } from '../storage/groupWriter.ts'
import { type AuditHead, isHeadOurs, readHead, writeHead } from './auditHead.ts'
import { firstHash, writeLine } from './auditLine.ts'
import { openSegment } from './openSegment.ts'
import { queryLog } from './queryLog.ts'
import { segmentFile, segmentsIn } from './segments.ts'
import { verifyLog } from './verifyLog.ts'

const segmentBytes = 4 << 20
/** How far the head may lag behind the log: entries of this time are on disk, and vouched for by their own codes alone. */
const headLagMs = 250

export interface AuditPlace {
  /** Made when missing. */
  readonly folder: string
  readonly headFile: string
  readonly clock: Clock
  /** After how many bytes the log goes on in a new file. */
  readonly segmentBytes?: number
}

/**
 * {@link AuditLog} in append-only files of a few MiB. Opening reads the newest file and the head; appending hashes one
 * entry and writes it.
 *
 * Where the newest file or the head shows damage, the log goes on in a new file after every number that was ever given,
 * so that the gap stays for {@link verify} to name.
 */
export class ChainedAuditLog implements AuditLog {
  readonly #place: AuditPlace
  readonly #segmentBytes: number
  #writer: GroupWriter
  #seq: number
  #hash: string
  /** The last entry on disk. */
  #durable: AuditHead
  /** The last entry handed to the file. */
  #batchedSeq: number
  #key: Buffer | undefined
  #damage: string | undefined
  #headTimer: NodeJS.Timeout | undefined

  static open(place: AuditPlace): ChainedAuditLog {
    return new ChainedAuditLog(place)
  }

  private constructor(place: AuditPlace) {
    this.#place = place
    this.#segmentBytes = place.segmentBytes ?? segmentBytes
    const { folder, headFile } = place
    mkdirSync(folder, { recursive: true, mode: folderMode })
    const read = readHead(headFile)
    const head = read.kind === 'head' ? read.head : { seq: 0, hash: firstHash }
    const last = openNewest(folder, head.seq)
    this.#damage = last.damage
    if (read.kind === 'damaged') this.#damage ??= 'the head beside the log was changed'
    if (head.seq > last.takenSeq)
      this.#damage ??= `entries ${last.lastSeq + 1} to ${head.seq} are missing at the end`
    const goesOn = last.file !== undefined && last.damage === undefined && head.seq <= last.takenSeq
    this.#seq = Math.max(last.takenSeq, head.seq)
    this.#hash = this.#seq === head.seq && head.seq > last.lastSeq ? head.hash : last.lastHash
    this.#durable = { seq: this.#seq, hash: this.#hash }
    this.#batchedSeq = this.#seq
    const target = goesOn
      ? { descriptor: openSync(last.file!, 'r+', fileMode), offset: last.bytes }
      : this.#newSegment(this.#seq + 1)
    this.#writer = new GroupWriter('the log', target, (batch, offset) => this.#redirect(batch, offset))
  }

  get damage(): string | undefined {
    return this.#damage
  }

  /** Whether keyed codes are written, and the head is checked. The key is copied. */
  unlock(key: Uint8Array): void {
    this.#key = Buffer.from(key)
    const read = readHead(this.#place.headFile)
    if (read.kind === 'missing' && this.#seq > 0) this.#damage ??= 'the head beside the log is missing'
    if (read.kind === 'head' && !isHeadOurs(key, read.head, read.mac)) {
      this.#damage ??= 'the head beside the log was not written by this vault'
    }
    this.#writeHead()
  }

  /** Writes the head and zeroes the key. */
  async lock(): Promise<void> {
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
    const timestamp = new Date(this.#place.clock.now()).toISOString()
    const { line, entry } = writeLine(event, { seq: this.#seq + 1, prev: this.#hash, timestamp }, this.#key)
    this.#seq = entry.seq
    this.#hash = entry.hash
    await this.#writer.append(line)
    if (entry.seq > this.#durable.seq) this.#durable = { seq: entry.seq, hash: entry.hash }
    this.#headTimer ??= setTimeout(() => this.#writeHead(), headLagMs).unref()
    return entry
  }

  query(query: AuditQuery): Promise<AuditPage> {
    return queryLog(segmentsIn(this.#place.folder), this.#durable.seq, query)
  }

  async verify(): Promise<AuditVerdict> {
    await this.#writer.drain()
    const { folder, headFile } = this.#place
    const lastSeq = this.#durable.seq
    const key = this.#key === undefined ? undefined : Buffer.from(this.#key)
    try {
      return await verifyLog({ segments: segmentsIn(folder), lastSeq, head: readHead(headFile), key })
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
    for (const { file } of segmentsIn(folder)) {
      const bytes = await readFile(file)
      yield {
        name: `${basename(folder)}/${basename(file)}`,
        bytes: bytes.subarray(0, bytes.lastIndexOf(10) + 1),
      }
    }
  }

  #writeHead(): void {
    clearTimeout(this.#headTimer)
    this.#headTimer = undefined
    if (this.#key === undefined) return
    try {
      writeHead(this.#place.headFile, this.#key, this.#durable)
    } catch {
      // The log itself is on disk; a head that lags is caught up by the next one.
    }
  }

  #redirect(batch: readonly Uint8Array[], offset: number): WriteTarget | undefined {
    const firstSeq = this.#batchedSeq + 1
    this.#batchedSeq += batch.length
    return offset < this.#segmentBytes ? undefined : this.#newSegment(firstSeq)
  }

  #newSegment(firstSeq: number): WriteTarget {
    const file = segmentFile(this.#place.folder, firstSeq)
    const descriptor = openSync(file, 'wx', fileMode)
    flushFolder(dirname(file))
    return { descriptor, offset: 0 }
  }
}

/** The newest file that has an entry; an empty one that a crash left is removed. */
function openNewest(folder: string, headSeq: number) {
  for (const segment of segmentsIn(folder).toReversed()) {
    const prev = segment.firstSeq === 1 ? firstHash : undefined
    const opened = openSegment(segment, prev, headSeq)
    if (opened.lastHash === undefined && opened.damage === undefined) {
      rmSync(segment.file)
      continue
    }
    const isEmptyFirst = opened.lastSeq === 0 && opened.damage === undefined
    if (isEmptyFirst) return { ...opened, lastHash: firstHash, file: segment.file }
    return { ...opened, lastHash: opened.lastHash ?? firstHash, file: segment.file }
  }
  return { lastSeq: 0, lastHash: firstHash, takenSeq: 0, bytes: 0, damage: undefined, file: undefined }
}
