import { closeSync, fsyncSync, linkSync, openSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { VaultError } from '../errors/error.ts'
import { lengthPrefixed } from './disk/aead.ts'
import { fileMode, flushFolder, unfinishedName, writeAll } from './disk/files.ts'
import { writeFrame } from './disk/frame.ts'
import { encodeHeader, type VaultHeader } from './password/header.ts'

export const backupMagic = Buffer.from('TGVBAK01', 'latin1')
export const backupSaltBytes = 16
/** The first byte of each frame's payload: what follows it. */
export const part = { record: 1, budget: 2, file: 3, end: 4 } as const
const CHUNK_BYTES = 512 * 1024

export interface BackupContent {
  /** Made by this call; one that is there is not replaced. */
  readonly file: string
  readonly header: VaultHeader
  /** 16 bytes, of this file alone. */
  readonly salt: Uint8Array
  /** What the signing process gives for the salt. */
  readonly key: Uint8Array
  readonly records: readonly Buffer[]
  readonly budget: readonly Buffer[]
  readonly audit: { exportFiles(): AsyncIterable<{ readonly name: string; readonly bytes: Buffer }> }
}

/**
 * Writes a backup: the header as it is, then everything else in frames under a key of this file alone, with a last
 * frame that says so. It opens with the password of the header, like the vault.
 * @throws `ALREADY_EXISTS`, `STORAGE_UNAVAILABLE`
 */
export async function writeBackup({
  file,
  header,
  salt,
  key,
  records,
  budget,
  audit,
}: BackupContent): Promise<void> {
  const unfinished = unfinishedName(file)
  try {
    rmSync(unfinished, { force: true })
    const opened = openSync(unfinished, 'wx', fileMode)
    try {
      let index = 0
      const write = (kind: number, payload: Uint8Array) =>
        writeAll(opened, writeFrame(key, index++, Buffer.concat([Uint8Array.of(kind), payload])))
      writeAll(opened, Buffer.concat([backupMagic, lengthPrefixed(encodeHeader(header)), salt]))
      for (const change of records) write(part.record, change)
      for (const change of budget) write(part.budget, change)
      for await (const { name, bytes } of audit.exportFiles()) {
        for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
          write(part.file, lengthPrefixed(name, bytes.subarray(at, at + CHUNK_BYTES)))
        }
      }
      write(part.end, new Uint8Array(0))
      fsyncSync(opened)
    } finally {
      closeSync(opened)
    }
    // A link fails where a rename would replace the owner's other backup.
    linkSync(unfinished, file)
    flushFolder(dirname(file))
  } catch (cause) {
    const isThere = (cause as NodeJS.ErrnoException).code === 'EEXIST'
    if (isThere)
      throw new VaultError('ALREADY_EXISTS', `There is a file ${file} already.`, {
        cause,
      })
    const reason = (cause as NodeJS.ErrnoException).code
    throw new VaultError(
      'STORAGE_UNAVAILABLE',
      `Could not write the backup to ${file}: ${reason ?? 'unknown reason'}.`,
      {
        cause,
        ...(reason !== 'ENOSPC' && {
          action: 'Name a file in a folder that is there and that the vault may write to.',
        }),
      },
    )
  } finally {
    rmSync(unfinished, { force: true })
  }
}
