import { rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import type { Clock } from '../../core/ports/clock.ts'
import type { AuditEvent, AuditPage, AuditQuery, AuditVerdict } from '../ports/audit.ts'
import { headMac, readHead } from './auditHead.ts'
import { type AuditLimits, oldOnes } from './dropOld.ts'
import type { KeptHead } from './keptHead.ts'
import type { LogEnd } from './logEnd.ts'
import { queryLog } from './queryLog.ts'
import { type Segment, segmentsIn } from './segments.ts'
import { verifyLog } from './verifyLog.ts'

export interface LogFilesPlace {
  readonly folder: string
  readonly headFile: string
  readonly clock: Clock
  readonly limits: AuditLimits
}

/** The files of a log: what is read of them, whether they are whole, and which are dropped because they are old. */
export class LogFiles {
  readonly #place: LogFilesPlace
  readonly #head: KeptHead
  readonly #end: LogEnd
  /** Queries and checks under way: a file that they may come to is not removed. */
  #readers = 0
  #isDropping = false

  constructor(place: LogFilesPlace, head: KeptHead, end: LogEnd) {
    this.#place = place
    this.#head = head
    this.#end = end
  }

  /** What was dropped, and is still there because a crash came between, is none of them. */
  segments(): Segment[] {
    const cutSeq = this.#head.cut?.seq ?? 0
    return segmentsIn(this.#place.folder).filter(({ firstSeq }) => firstSeq > cutSeq)
  }

  query(query: AuditQuery): Promise<AuditPage> {
    return this.#reading(() => queryLog(this.segments(), this.#end.durable.seq, query))
  }

  verify(): Promise<AuditVerdict> {
    return this.#reading(async () => {
      await this.#end.drain()
      const key = this.#head.key && Buffer.from(this.#head.key)
      try {
        return await verifyLog({
          segments: segmentsIn(this.#place.folder),
          lastSeq: this.#end.durable.seq,
          head: readHead(this.#place.headFile),
          key,
          cut: this.#head.cut,
          written: this.#head.written,
          anchor: this.#head.anchor,
        })
      } finally {
        key?.fill(0)
      }
    })
  }

  /** The head and then the files up to the last entry on disk, named as they stand in the vault's folder. */
  async *export(): AsyncGenerator<{ readonly name: string; readonly bytes: Buffer }> {
    await this.#end.drain()
    this.#head.write()
    const { folder, headFile } = this.#place
    yield { name: basename(headFile), bytes: await readFile(headFile) }
    for (const { file } of this.segments()) {
      const bytes = await readFile(file)
      yield {
        name: `${basename(folder)}/${basename(file)}`,
        bytes: bytes.subarray(0, bytes.lastIndexOf(10) + 1),
      }
    }
  }

  /**
   * Drops the oldest files above the limits, once the head says where the log begins then; while locked it does nothing.
   *
   * @param tell writes an entry about it, before anything is gone
   */
  async dropOld(tell: (event: AuditEvent) => Promise<unknown>): Promise<void> {
    if (this.#isDropping || this.#head.key === undefined) return
    this.#isDropping = true
    const key = Buffer.from(this.#head.key)
    try {
      this.#removeDropped()
      const old = oldOnes(this.segments(), this.#place.limits, this.#place.clock.now())
      // A file that is not full may be old, too: the next entry begins another, and the one after that finds this one.
      if (old.isNewestAging) this.#end.goOnInNew()
      const { cut, dropped: segments } = old
      if (cut === undefined) return
      const { cut: before } = this.#head
      const head = { kind: 'head', head: cut, mac: headMac(key, cut) } as const
      const { ok, reason } = await this.#reading(() =>
        verifyLog({ segments, lastSeq: cut.seq, head, key, cut: before }),
      )
      const which = `entries ${(before?.seq ?? 0) + 1} to ${cut.seq} are dropped by its limits`
      await tell({
        agent: 'vault',
        action: 'CONFIG',
        status: ok ? 'APPROVED' : 'FAILED',
        note: `The log: ${which}.${ok ? '' : ` They were damaged: ${reason}.`}`,
      })
      this.#head.cutAt(cut)
      this.#removeDropped()
    } finally {
      key.fill(0)
      this.#isDropping = false
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
    const cutSeq = this.#head.written?.cut?.seq
    if (cutSeq === undefined || this.#readers > 0) return
    for (const { file, firstSeq } of segmentsIn(this.#place.folder)) if (firstSeq <= cutSeq) rmSync(file)
  }
}
