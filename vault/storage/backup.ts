import { closeSync, fsyncSync, linkSync, openSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { crc32 } from 'node:zlib'
import { lengthPrefixed, seal, sealOverheadBytes, unseal } from '../disk/aead.ts'
import { fileMode, flushFolder, unfinishedName, writeAll } from '../disk/files.ts'
import type { VaultDatabase } from '../disk/vaultDatabase.ts'
import { VaultError } from '../errors/error.ts'
import { encodeHeader, type VaultHeader } from './password/header.ts'

/** Maximum content of a frame, in bytes. If the file states more, it is damaged. */
const MAX_FRAME_BYTES = 1 << 20
const headBytes = 8
/**
 * Minimum number of zero bytes at the end of a file that show an unwritten block, which a crash left behind. Ciphertext never
 * has so many.
 */
const unwrittenZeroBytes = 32

/** Encodes a frame, which is a sealed payload with its length and the length's checksum before it. */
function writeFrame(key: Uint8Array, index: number, payload: Uint8Array): Buffer {
  const length = payload.length + sealOverheadBytes
  if (length > MAX_FRAME_BYTES)
    throw new RangeError(`Expected a frame of at most ${MAX_FRAME_BYTES} bytes, got ${length}.`)
  const head = Buffer.alloc(headBytes)
  head.writeUInt32BE(length)
  head.writeUInt32BE(checkOf(head), 4)
  return Buffer.concat([head, seal(key, payload, indexBytes(index))])
}

type FrameRead =
  | { readonly kind: 'frame'; readonly payload: Buffer; readonly next: number }
  /** The file ends inside the frame, because the vault crashed before the write was confirmed. */
  | { readonly kind: 'torn' }
  /** The frame differs from what was written. */
  | { readonly kind: 'bad' }

/**
 * Reads the frame at an offset. The length has its own checksum, which distinguishes a crash from damage. Without it, a damaged
 * length could make a whole frame look unfinished, and the frame would be cut off silently.
 */
export function readFrame(key: Uint8Array, index: number, file: Buffer, offset: number): FrameRead {
  const left = file.length - offset
  if (left < headBytes) return { kind: 'torn' }
  const length = file.readUInt32BE(offset)
  const isLength =
    file.readUInt32BE(offset + 4) === checkOf(file.subarray(offset, offset + 4)) &&
    length >= sealOverheadBytes &&
    length <= MAX_FRAME_BYTES
  if (!isLength) return { kind: endsUnwritten(file, offset) ? 'torn' : 'bad' }
  const next = offset + headBytes + length
  if (next > file.length) return { kind: 'torn' }
  const payload = unseal(key, file.subarray(offset + headBytes, next), indexBytes(index))
  if (payload !== undefined) return { kind: 'frame', payload, next }
  return { kind: endsUnwritten(file, offset) ? 'torn' : 'bad' }
}

/** Whether the file has only zeros from this offset on, and enough of them. A changed byte never produces that many. */
function endsUnwritten(file: Buffer, from: number): boolean {
  if (file.length - from < unwrittenZeroBytes) return file.subarray(from).every((byte) => byte === 0)
  return file.subarray(-unwrittenZeroBytes).every((byte) => byte === 0)
}

function checkOf(length: Uint8Array): number {
  return crc32(length.subarray(0, 4), 0x54474c46)
}

/** The bytes that bind a frame to its index. A frame that was moved, repeated or follows an omitted one cannot be opened. */
function indexBytes(index: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(index))
  return bytes
}

export const backupMagic = Buffer.from('TGVBAK01', 'latin1')
export const backupSaltBytes = 16

export interface BackupContent {
  /** The new file. An existing file is not replaced. */
  readonly file: string
  readonly header: VaultHeader
  /** 16 bytes, unique to this file. */
  readonly salt: Uint8Array
  /** The signing process's key for this salt. */
  readonly key: Uint8Array
  readonly database: VaultDatabase
}

/**
 * Writes a backup: the unchanged header, then the database in frames with a key unique to this file, then an empty frame. The
 * header's password opens it, as it opens the vault.
 * @throws `ALREADY_EXISTS`, `STORAGE_UNAVAILABLE`
 */
export async function writeBackup({ file, header, salt, key, database }: BackupContent): Promise<void> {
  const unfinished = unfinishedName(file)
  try {
    rmSync(unfinished, { force: true })
    const opened = openSync(unfinished, 'wx', fileMode)
    try {
      let index = 0
      const write = (payload: Uint8Array) => writeAll(opened, writeFrame(key, index++, payload))
      writeAll(opened, Buffer.concat([backupMagic, lengthPrefixed(encodeHeader(header)), salt]))
      for await (const chunk of database.image()) write(chunk)
      write(new Uint8Array(0))
      fsyncSync(opened)
    } finally {
      closeSync(opened)
    }
    // A link fails if the file exists. A rename would replace another backup of the owner.
    linkSync(unfinished, file)
    flushFolder(dirname(file))
  } catch (cause) {
    const isThere = (cause as NodeJS.ErrnoException).code === 'EEXIST'
    if (isThere)
      throw new VaultError('ALREADY_EXISTS', `The file ${file} already exists.`, {
        cause,
      })
    const reason = (cause as NodeJS.ErrnoException).code
    throw new VaultError(
      'STORAGE_UNAVAILABLE',
      `Could not write the backup to ${file}: ${reason ?? 'unknown reason'}.`,
      {
        cause,
        ...(reason !== 'ENOSPC' && {
          action: 'Name a file in an existing folder that the vault may write to.',
        }),
      },
    )
  } finally {
    rmSync(unfinished, { force: true })
  }
}
