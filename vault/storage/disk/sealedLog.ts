import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { basename, dirname } from 'node:path'
import { VaultError } from '../../errors/error.ts'
import { deriveKey } from './aead.ts'
import { fileMode, flushFolder, unfinishedName, writeAll } from './files.ts'
import { readFrame, writeFrame } from './frame.ts'
import { GroupWriter } from './groupWriter.ts'

const magic = Buffer.from('TGVLOG01', 'latin1')
const saltBytes = 16
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
  /** Takes in one payload of a snapshot or an append. The buffer is zeroed afterwards: copy what stays. */
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
 * cut away: nobody was told that it was written. What can not be told from inside a file is that its last whole frames
 * were taken off, or that all of it is an older copy: guard the folder.
 */
export class SealedLog {
  readonly #options: SealedLogOptions
  readonly #derive: (salt: Uint8Array) => Buffer
  readonly #compactAfterBytes: number
  #masterKey: Buffer
  #key: Buffer
  #salt: Buffer
  #nextIndex: number
  #snapshotBytes: number
  #mustCompact = false
  readonly #writer: GroupWriter

  /** The place's log, with everything in it replayed. @throws `VAULT_CORRUPT` naming the file. */
  static open(options: SealedLogOptions): SealedLog {
    return new SealedLog(options, readAll(options))
  }

  /** Writes the state as it is to a new log in the place. Replaces one that is there. */
  static create(options: SealedLogOptions): SealedLog {
    const written = writeSnapshot(options.file, options.state.snapshot(), (salt) =>
      deriveKey(options.masterKey, options.use, options.vaultId, salt),
    )
    return new SealedLog(options, written)
  }

  private constructor(options: SealedLogOptions, at: ReadLog) {
    this.#options = options
    this.#masterKey = Buffer.from(options.masterKey)
    this.#derive = (salt) => deriveKey(this.#masterKey, options.use, options.vaultId, salt)
    this.#compactAfterBytes = options.compactAfterBytes ?? DEFAULT_COMPACT_AFTER_BYTES
    this.#key = at.key
    this.#salt = at.salt
    this.#nextIndex = at.index
    this.#snapshotBytes = at.snapshotEnd
    this.#writer = new GroupWriter(basename(options.file), at, {
      isOurs: options.isOurs,
      redirect: (_batch, offset) => this.#compact(offset),
      failed: (bytes) => this.#readBack(bytes),
    })
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

  #compact(offset: number) {
    const mustCompact = this.#mustCompact
    if (!mustCompact && offset - this.#snapshotBytes < this.#compactAfterBytes) return undefined
    this.#mustCompact = false
    let written: ReadLog
    try {
      written = writeSnapshot(this.#options.file, this.#options.state.snapshot(), this.#derive)
    } catch (error) {
      // A second file needs more room than one more entry: where nothing has to go, the log grows a while longer.
      if (mustCompact || error instanceof SnapshotInDoubt) throw error
      this.#snapshotBytes = offset
      return undefined
    }
    this.#become(written)
    return { descriptor: written.descriptor, offset: written.offset, holdsBatch: true }
  }

  /** The state as the file has it, after a write that failed. */
  #readBack(bytes: number) {
    const { state } = this.#options
    state.reset()
    this.#mustCompact = false
    const read = readAll({ ...this.#options, masterKey: this.#masterKey }, { salt: this.#salt, bytes })
    this.#become(read)
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

/** Where a file that was read goes on. */
interface ReadLog {
  readonly descriptor: number
  readonly key: Buffer
  readonly salt: Buffer
  readonly index: number
  readonly offset: number
  readonly snapshotEnd: number
}

/**
 * Replays a log's file and cuts off what is behind its last whole frame.
 * @param flushed what is behind so many bytes of the file with `flushed.salt` was refused, and is cut off though it be whole
 * @throws `VAULT_CORRUPT` naming the file
 */
function readAll(
  options: SealedLogOptions,
  flushed?: { readonly salt: Buffer; readonly bytes: number },
): ReadLog {
  const name = basename(options.file)
  rmSync(unfinishedName(options.file), { force: true })
  let bytes: Buffer
  try {
    bytes = readFileSync(options.file)
  } catch (cause) {
    throw corrupt(name, 'it can not be read', cause)
  }
  const startAt = magic.length + saltBytes
  if (bytes.length < startAt || !bytes.subarray(0, magic.length).equals(magic)) {
    throw corrupt(name, 'it does not begin as one of ours')
  }
  const salt = Buffer.from(bytes.subarray(magic.length, startAt))
  if (flushed?.salt.equals(salt)) bytes = bytes.subarray(0, flushed.bytes)
  const key = deriveKey(options.masterKey, options.use, options.vaultId, salt)
  let index = 0
  let offset = startAt
  let snapshotFrames = 0
  let snapshotEnd = startAt
  while (offset < bytes.length || index <= snapshotFrames) {
    const read = readFrame(key, index, bytes, offset)
    if (read.kind === 'bad' || (read.kind === 'torn' && index <= snapshotFrames)) {
      key.fill(0)
      throw corrupt(name, `entry ${index} at byte ${offset} is not what was written`)
    }
    if (read.kind === 'torn') break
    if (index === 0) snapshotFrames = read.payload.readUInt32BE()
    else options.state.replay(read.payload)
    read.payload.fill(0)
    offset = read.next
    if (index === snapshotFrames) snapshotEnd = offset
    index++
  }
  const descriptor = openSync(options.file, 'r+')
  if (offset < fstatSync(descriptor).size) {
    ftruncateSync(descriptor, offset)
    // After a write that failed the next one flushes this, too.
    if (flushed === undefined) fsyncSync(descriptor)
  }
  return { descriptor, key, salt, index, offset, snapshotEnd }
}

/** Not asynchronous: nothing may be appended between taking the snapshot and numbering the frames after it. */
function writeSnapshot(
  file: string,
  payloads: readonly Uint8Array[],
  derive: (salt: Uint8Array) => Buffer,
): ReadLog {
  const salt = randomBytes(saltBytes)
  const key = derive(salt)
  const count = Buffer.alloc(4)
  count.writeUInt32BE(payloads.length)
  const frames = [count, ...payloads].map((payload, index) => writeFrame(key, index, payload))
  for (const payload of payloads) payload.fill(0)
  const bytes = Buffer.concat([magic, salt, ...frames])
  const unfinished = unfinishedName(file)
  rmSync(unfinished, { force: true })
  const descriptor = openSync(unfinished, 'wx+', fileMode)
  let isRenamed = false
  try {
    writeAll(descriptor, bytes)
    fsyncSync(descriptor)
    renameSync(unfinished, file)
    isRenamed = true
    flushFolder(dirname(file))
  } catch (error) {
    closeSync(descriptor)
    key.fill(0)
    // What was written of it takes the room that is missing.
    rmSync(unfinished, { force: true })
    throw isRenamed ? new SnapshotInDoubt('The snapshot may or may not be on disk.', { cause: error }) : error
  }
  const offset = bytes.length
  return { descriptor, key, salt, index: payloads.length + 1, offset, snapshotEnd: offset }
}

/** The new file has taken the place of the old one, but may lose it again with a power cut. */
class SnapshotInDoubt extends Error {}

function corrupt(name: string, what: string, cause?: unknown): VaultError {
  return new VaultError(
    'VAULT_CORRUPT',
    `${name} of the vault is damaged: ${what}. Restore the newest backup.`,
    {
      cause,
    },
  )
}
