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
import { fileMode, flushFolder, unfinishedName, writeAll } from './files.ts'
import { hasMagic } from './formatVersion.ts'
import { readFrame, writeFrame } from './frame.ts'

const magic = Buffer.from('TGVLOG01', 'latin1')
const saltBytes = 16
const lineageBytes = 6
const countBytes = 4
const seqBytes = 8
/** The first byte of a mark; no payload begins with it. */
const markByte = 0

/** What the first frame of a file says of the snapshot behind it. */
export interface SnapshotHead {
  /** Names the file from its creation on, through every snapshot; a restored vault's files have other names. */
  readonly lineage: string
  /** How many payloads and marks were appended since its creation, up to this snapshot. */
  readonly seq: number
  /** The last mark. */
  readonly mark: string
}

/** Where a file that was read goes on. */
export interface ReadLog extends SnapshotHead {
  readonly descriptor: number
  readonly key: Buffer
  readonly salt: Buffer
  readonly index: number
  readonly offset: number
  readonly snapshotEnd: number
}

export const newLineage = (): string => randomBytes(lineageBytes).toString('base64url')

export const markFrame = (mark: string): Buffer => Buffer.from(`\0${mark}`, 'latin1')

/**
 * Replays a log's file and cuts off what is behind its last whole frame.
 * @param flushed what is behind so many bytes of the file with `flushed.salt` was refused, and is cut off though it be whole
 * @throws `VAULT_CORRUPT` naming the file
 */
export function readSealedFile(
  file: string,
  derive: (salt: Uint8Array) => Buffer,
  replay: (payload: Buffer) => void,
  flushed?: { readonly salt: Buffer; readonly bytes: number },
): ReadLog {
  const name = basename(file)
  rmSync(unfinishedName(file), { force: true })
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch (cause) {
    throw corrupt(name, 'it can not be read', cause)
  }
  const startAt = magic.length + saltBytes
  if (!hasMagic(bytes, magic, name) || bytes.length < startAt) {
    throw corrupt(name, 'it does not begin as one of ours')
  }
  const salt = Buffer.from(bytes.subarray(magic.length, startAt))
  if (flushed?.salt.equals(salt)) bytes = bytes.subarray(0, flushed.bytes)
  const key = derive(salt)
  let index = 0
  let offset = startAt
  let snapshotFrames = 0
  let snapshotEnd = startAt
  let head: SnapshotHead = { lineage: '', seq: 0, mark: '' }
  while (offset < bytes.length || index <= snapshotFrames) {
    const read = readFrame(key, index, bytes, offset)
    if (read.kind === 'bad' || (read.kind === 'torn' && index <= snapshotFrames)) {
      key.fill(0)
      throw corrupt(name, `entry ${index} at byte ${offset} is not what was written`)
    }
    if (read.kind === 'torn') break
    if (index === 0) {
      snapshotFrames = read.payload.readUInt32BE()
      head = readHead(read.payload)
    } else if (read.payload[0] === markByte) head = { ...head, mark: read.payload.toString('latin1', 1) }
    else replay(read.payload)
    read.payload.fill(0)
    offset = read.next
    if (index === snapshotFrames) snapshotEnd = offset
    index++
  }
  const descriptor = openSync(file, 'r+')
  if (offset < fstatSync(descriptor).size) ftruncateSync(descriptor, offset)
  // A process that was killed may have flushed neither its last entries nor a file's new name, and other files may only keep
  // what is on disk. After a write that failed the next one flushes this, too.
  if (flushed === undefined) {
    fsyncSync(descriptor)
    flushFolder(dirname(file))
  }
  const seq = head.seq + index - 1 - snapshotFrames
  return { ...head, seq, descriptor, key, salt, index, offset, snapshotEnd }
}

/**
 * Not asynchronous: nothing may be appended between taking the snapshot and numbering the frames after it.
 * @param isOurs asked once more before the file takes its name: a slow disk may have held this process up until another one
 * took the folder
 */
export function writeSnapshot(
  file: string,
  head: SnapshotHead,
  payloads: readonly Uint8Array[],
  derive: (salt: Uint8Array) => Buffer,
  isOurs?: () => boolean,
): ReadLog {
  const salt = randomBytes(saltBytes)
  const key = derive(salt)
  const frames = [writeHead(head, payloads.length), ...payloads].map((payload, index) =>
    writeFrame(key, index, payload),
  )
  for (const payload of payloads) payload.fill(0)
  const bytes = Buffer.concat([magic, salt, ...frames])
  const unfinished = unfinishedName(file)
  rmSync(unfinished, { force: true })
  const descriptor = openSync(unfinished, 'wx+', fileMode)
  let isRenamed = false
  try {
    writeAll(descriptor, bytes)
    fsyncSync(descriptor)
    if (isOurs?.() === false) throw new VaultError('VAULT_IN_USE')
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
  return { ...head, descriptor, key, salt, index: payloads.length + 1, offset, snapshotEnd: offset }
}

/** The new file has taken the place of the old one, but may lose it again with a power cut. */
export class SnapshotInDoubt extends Error {}

function writeHead({ lineage, seq, mark }: SnapshotHead, payloads: number): Buffer {
  const numbers = Buffer.alloc(countBytes + seqBytes)
  numbers.writeUInt32BE(payloads)
  numbers.writeBigUInt64BE(BigInt(seq), countBytes)
  return Buffer.concat([numbers, Buffer.from(lineage, 'base64url'), Buffer.from(mark, 'latin1')])
}

function readHead(payload: Buffer): SnapshotHead {
  const lineageAt = countBytes + seqBytes
  const markAt = lineageAt + lineageBytes
  return {
    lineage: payload.toString('base64url', lineageAt, markAt),
    seq: Number(payload.readBigUInt64BE(countBytes)),
    mark: payload.toString('latin1', markAt),
  }
}

function corrupt(name: string, what: string, cause?: unknown): VaultError {
  return new VaultError(
    'VAULT_CORRUPT',
    `${name} of the vault is damaged: ${what}. Restore the newest backup.`,
    {
      cause,
    },
  )
}
