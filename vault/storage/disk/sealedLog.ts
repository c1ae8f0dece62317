import { basename } from 'node:path'
import { isVaultError } from '../../errors/error.ts'
import { deriveKey } from './aead.ts'
import { writeFrame } from './frame.ts'
import { GroupWriter } from './groupWriter.ts'
import {
  markFrame,
  newLineage,
  type ReadLog,
  readSealedFile,
  SnapshotInDoubt,
  writeSnapshot,
} from './sealedFile.ts'

const DEFAULT_COMPACT_AFTER_BYTES = 4 << 20

export interface SealedLogPlace {
  readonly file: string
  /** What the log is for; part of its key, so that one log can not take the place of another. */
  readonly use: string
  readonly vaultId: string
  /** Read while opening and creating; not kept. */
  readonly masterKey: Uint8Array
  /** See {@link import('./groupWriter.ts').WriterHooks}. */
  readonly isOurs?: (() => boolean) | undefined
}

export interface SealedLogState {
  /**
   * The whole state as payloads in buffers of their own, which are zeroed afterwards; {@link replay} of them, in order,
   * gives it back. Called synchronously, so it must
   * include everything that was appended so far: change the state in the turn in which you append.
   */
  snapshot(): readonly Uint8Array[]
  /** Forgets everything: a write failed, and what the file says is replayed. Called synchronously. */
  reset(): void
  /**
   * Takes in one payload of a snapshot or an append, which begins with another byte than 0. The buffer is zeroed
   * afterwards: copy what stays.
   */
  replay(payload: Buffer): void
}

export interface SealedLogOptions extends SealedLogPlace {
  readonly state: SealedLogState
  /** The log is written anew from the state once so much was appended to it. */
  readonly compactAfterBytes?: number
}

/**
 * State that is kept as a snapshot followed by what changed since, in one encrypted file. The file never grows past the
 * state's own size plus `compactAfterBytes`, however long its history is.
 *
 * Layout: magic, salt, then frames (see frame.ts) under a key of this file alone. The first frame says how many
 * of the next make up the snapshot; a snapshot takes its place by rename and so is there whole or not at all.
 * Detected: any changed, moved, repeated or missing byte, and a cut inside the snapshot. An end that a crash tore off is
 * cut away: no caller was told that it was written. That its last whole frames were taken off, or that all of it is an
 * older copy, can't be told from inside the file: other files keep its {@link position}, and this one keeps theirs as a mark.
 */
export class SealedLog {
  readonly #options: SealedLogOptions
  readonly #derive: (salt: Uint8Array) => Buffer
  readonly #compactAfterBytes: number
  #masterKey: Buffer
  #key: Buffer
  #salt: Buffer
  #nextIndex: number
  readonly #lineage: string
  /** How many payloads and marks are on disk, since the file was created. */
  #seq: number
  #lastMark: string
  #snapshotBytes: number
  #mustCompact = false
  readonly #writer: GroupWriter

  /** The place's log, with everything in it replayed. @throws `VAULT_CORRUPT` naming the file. */
  static open(options: SealedLogOptions): SealedLog {
    const { file, state } = options
    return new SealedLog(options, readSealedFile(file, deriveFor(options), state.replay.bind(state)))
  }

  /** Writes the state as it is to a new log in the place. Replaces one that is there. */
  static create(options: SealedLogOptions): SealedLog {
    const head = { lineage: newLineage(), seq: 0, mark: '' }
    const { file, state } = options
    return new SealedLog(options, writeSnapshot(file, head, state.snapshot(), deriveFor(options)))
  }

  private constructor(options: SealedLogOptions, at: ReadLog) {
    this.#options = options
    this.#masterKey = Buffer.from(options.masterKey)
    this.#derive = deriveFor({ ...options, masterKey: this.#masterKey })
    this.#compactAfterBytes = options.compactAfterBytes ?? DEFAULT_COMPACT_AFTER_BYTES
    this.#key = at.key
    this.#salt = at.salt
    this.#nextIndex = at.index
    this.#lineage = at.lineage
    this.#seq = at.seq
    this.#lastMark = at.mark
    this.#snapshotBytes = at.snapshotEnd
    this.#writer = new GroupWriter(basename(options.file), at, {
      isOurs: options.isOurs,
      redirect: (batch, offset) => this.#compact(batch.length, offset),
      written: (count) => void (this.#seq += count),
      failed: (bytes) => this.#readBack(bytes),
    })
  }

  /** How far the file has come on disk: which file it is, and its number of changes. */
  get position(): string {
    return `${this.#lineage}.${this.#seq}`
  }

  /** The last text that {@link mark} was given; empty in a new file. */
  get lastMark(): string {
    return this.#lastMark
  }

  /** Keeps a short text beside the state, in the place of the last one. Fulfilled when it is on disk. */
  mark(text: string): Promise<void> {
    this.#lastMark = text
    return this.append(markFrame(text))
  }

  /** Fulfilled when the payload is on disk. Change the state in the same turn, before or after. */
  append(payload: Uint8Array): Promise<void> {
    return this.#writer.append(writeFrame(this.#key, this.#nextIndex++, payload))
  }

  /** The same, and nothing that the state no longer holds is left in the file: for what was deleted. */
  appendAndCompact(payload: Uint8Array): Promise<void> {
    this.#mustCompact = true
    return this.append(payload)
  }

  /** Flushes, closes the file and zeroes the keys. */
  async close(): Promise<void> {
    await this.#writer.close()
    this.#key.fill(0)
    this.#masterKey.fill(0)
  }

  #compact(batch: number, offset: number) {
    const mustCompact = this.#mustCompact
    if (!mustCompact && offset - this.#snapshotBytes < this.#compactAfterBytes) return undefined
    this.#mustCompact = false
    let written: ReadLog
    try {
      const { file, state, isOurs } = this.#options
      const head = { lineage: this.#lineage, seq: this.#seq + batch, mark: this.#lastMark }
      written = writeSnapshot(file, head, state.snapshot(), this.#derive, isOurs)
    } catch (error) {
      // A second file needs more room than one more entry: where nothing has to go, the log grows a while longer.
      if (mustCompact || error instanceof SnapshotInDoubt || isVaultError(error)) throw error
      this.#snapshotBytes = offset
      return undefined
    }
    this.#become(written)
    return { descriptor: written.descriptor, offset: written.offset, holdsBatch: true }
  }

  /** The state as the file has it, after a write that failed. */
  #readBack(bytes: number) {
    const { file, state } = this.#options
    state.reset()
    this.#mustCompact = false
    const read = readSealedFile(file, this.#derive, state.replay.bind(state), { salt: this.#salt, bytes })
    this.#become(read)
    this.#seq = read.seq
    this.#lastMark = read.mark
    return { descriptor: read.descriptor, offset: read.offset }
  }

  #become({ key, salt, index, snapshotEnd }: ReadLog): void {
    this.#key.fill(0)
    this.#key = key
    this.#salt = salt
    this.#nextIndex = index
    this.#snapshotBytes = snapshotEnd
  }
}

const deriveFor =
  ({ masterKey, use, vaultId }: SealedLogPlace) =>
  (salt: Uint8Array): Buffer =>
    deriveKey(masterKey, use, vaultId, salt)
