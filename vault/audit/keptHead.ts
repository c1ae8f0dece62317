import type { AuditMark } from '../ports/audit.ts'
import { type AuditHead, type HeadRead, isHeadOurs, readHead, writeHead } from './auditHead.ts'

/** How far the head may lag behind the log: entries of this time are on disk, and vouched for by their own codes alone. */
const HEAD_LAG_MS = 250

/** What was found beside the log when its key came. */
export interface FoundHead {
  readonly read: HeadRead
  readonly isOurs: boolean
  /** How far the log had come by all that is known elsewhere. */
  readonly anchorSeq: number
}

/** The head beside a log, kept up to date while there is a key for it, and what else remembers how far the log had come. */
export class KeptHead {
  readonly #file: string
  readonly #tell: ((mark: AuditMark) => void) | undefined
  readonly #durable: () => AuditMark
  readonly #isOurs: () => boolean
  #key: Buffer | undefined
  /** As it was written last. */
  #written: AuditHead | undefined
  /** What was dropped because it was old, as an authentic head says. */
  #cut: AuditMark | undefined
  /** What was remembered last. */
  #anchor: AuditMark | undefined
  #timer: NodeJS.Timeout | undefined

  /**
   * @param durable the last entry on disk
   * @param tell told with each head how far the log has come
   * @param isOurs false once another process has the vault's folder, and writes the head
   */
  constructor(
    file: string,
    durable: () => AuditMark,
    tell: ((mark: AuditMark) => void) | undefined,
    isOurs: () => boolean = () => true,
  ) {
    this.#file = file
    this.#durable = durable
    this.#tell = tell
    this.#isOurs = isOurs
  }

  /** Undefined while locked. */
  get key(): Buffer | undefined {
    return this.#key
  }

  get written(): AuditHead | undefined {
    return this.#written
  }

  get anchor(): AuditMark | undefined {
    return this.#anchor
  }

  /** While locked, the head is taken at its word. */
  get cut(): AuditMark | undefined {
    if (this.#key !== undefined || this.#cut !== undefined) return this.#cut
    const read = readHead(this.#file)
    return read.kind === 'head' ? read.head.cut : undefined
  }

  /** Says from now on that the log begins behind this entry. */
  cutAt(cut: AuditMark): void {
    this.#cut = cut
    this.write()
  }

  /** @param key copied   @param anchor what was remembered last */
  unlock(key: Uint8Array, anchor: AuditMark | undefined): FoundHead {
    this.#key = Buffer.from(key)
    this.#anchor = anchor
    const read = readHead(this.#file)
    const isOurs = read.kind === 'head' && isHeadOurs(key, read.head, read.mac)
    if (isOurs) this.#cut = read.head.cut
    return { read, isOurs, anchorSeq: Math.max(anchor?.seq ?? 0, this.#written?.seq ?? 0) }
  }

  /** Zeroes the key. */
  lock(): void {
    this.#key?.fill(0)
    this.#key = undefined
  }

  writeSoon(): void {
    this.#timer ??= setTimeout(() => this.write(), HEAD_LAG_MS).unref()
  }

  write(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#key === undefined || !this.#isOurs()) return
    const head = { ...this.#durable(), cut: this.#cut }
    try {
      writeHead(this.#file, this.#key, head)
      this.#written = head
      // Only what the head says, too: a head that is behind this is one from before.
      this.#anchor = { seq: head.seq, hash: head.hash }
      this.#tell?.(this.#anchor)
    } catch {
      // The log itself is on disk; a head that lags is caught up by the next one.
    }
  }
}
