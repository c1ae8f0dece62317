import { closeSync, fsyncSync, openSync, rmSync } from 'node:fs'
import type { AuditEntry, AuditMark } from '../ports/audit.ts'
import { fileMode, flushFolder } from '../storage/disk/files.ts'
import { GroupWriter, type WriteTarget } from '../storage/disk/groupWriter.ts'
import { segmentFile } from './segments.ts'

export interface LogEndEvents {
  /** Whether this process still has the vault's folder. */
  readonly isOurs?: (() => boolean) | undefined
  /** More entries are on disk. @param isNewFile whether the log has gone on in another file */
  written(isNewFile: boolean): void
  /** What waited is not on disk; its numbers are given again. */
  failed(): void
}

/** Where a log goes on: behind an entry, in a file that is there or in a new one. */
export interface LogStart extends AuditMark {
  readonly file: { readonly name: string; readonly bytes: number } | undefined
}

/** The growing end of a log: numbers entries, chains each to the one before, writes them in groups, begins files. */
export class LogEnd {
  readonly #folder: string
  readonly #segmentBytes: number
  readonly #writer: GroupWriter
  #seq: number
  #hash: string
  #durable: AuditMark
  /** Entries on their way to disk. */
  #waiting: AuditMark[] = []
  /** The next entry begins a file. */
  #mustGoOnInNew = false
  #isNewFile = false

  /** @param segmentBytes after how many bytes the log goes on in a new file */
  constructor(folder: string, segmentBytes: number, { seq, hash, file }: LogStart, events: LogEndEvents) {
    this.#folder = folder
    this.#segmentBytes = segmentBytes
    this.#seq = seq
    this.#hash = hash
    this.#durable = { seq, hash }
    const target =
      file === undefined
        ? this.#newSegment(seq + 1)
        : { descriptor: openFlushed(file.name), offset: file.bytes }
    this.#writer = new GroupWriter('the log', target, {
      isOurs: events.isOurs,
      redirect: (_batch, offset) => this.#redirect(offset),
      written: (count) => {
        this.#durable = this.#waiting.splice(0, count).at(-1)!
        const isNewFile = this.#isNewFile
        this.#isNewFile = false
        events.written(isNewFile)
      },
      failed: () => {
        this.#waiting = []
        this.#seq = this.#durable.seq
        this.#hash = this.#durable.hash
        events.failed()
        return undefined
      },
    })
  }

  /** The last number that was given. */
  get seq(): number {
    return this.#seq
  }

  /** The last entry on disk. */
  get durable(): AuditMark {
    return this.#durable
  }

  /** @returns the entry, and a promise of its being on disk. @throws `STORAGE_UNAVAILABLE` as a rejection of that */
  append(
    write: (at: { readonly seq: number; readonly prev: string }) => {
      readonly line: Buffer
      readonly entry: AuditEntry
    },
  ): { readonly entry: AuditEntry; readonly bytes: number; readonly onDisk: Promise<void> } {
    const { line, entry } = write({ seq: this.#seq + 1, prev: this.#hash })
    this.#seq = entry.seq
    this.#hash = entry.hash
    this.#waiting.push({ seq: entry.seq, hash: entry.hash })
    return { entry, bytes: line.length, onDisk: this.#writer.append(line) }
  }

  /** No number up to this one is given any more. */
  goOnAfter(seq: number): void {
    this.#seq = seq
    this.#durable = { seq, hash: this.#hash }
    this.#mustGoOnInNew = true
  }

  goOnInNew(): void {
    this.#mustGoOnInNew = true
  }

  drain(): Promise<void> {
    return this.#writer.drain()
  }

  close(): Promise<void> {
    return this.#writer.close()
  }

  #redirect(offset: number): WriteTarget | undefined {
    if (offset < this.#segmentBytes && !this.#mustGoOnInNew) return undefined
    const target = this.#newSegment(this.#waiting[0]!.seq)
    this.#mustGoOnInNew = false
    this.#isNewFile = true
    return target
  }

  #newSegment(firstSeq: number): WriteTarget {
    const file = segmentFile(this.#folder, firstSeq)
    const descriptor = openSync(file, 'wx', fileMode)
    try {
      flushFolder(this.#folder)
    } catch (error) {
      closeSync(descriptor)
      rmSync(file, { force: true })
      throw error
    }
    return { descriptor, offset: 0 }
  }
}

/** Its last entries count as written: a process that was killed may not have flushed them. */
function openFlushed(file: string): number {
  const descriptor = openSync(file, 'r+', fileMode)
  fsyncSync(descriptor)
  return descriptor
}
