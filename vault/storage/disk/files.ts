import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { VaultError } from '../../errors/error.ts'

/** Only the owner reads and writes a file of the vault. */
export const fileMode = 0o600
export const folderMode = 0o700

/** What the codes of the file system say to a person. */
const reasons: Readonly<Record<string, string>> = {
  EROFS: 'the file system is read-only. Mount it for writing',
  ENOSPC: 'the disk is full. Make room',
  EDQUOT: "this user's share of the disk is used up. Make room",
  EACCES: "this user may not write there. Change the folder's owner or mode",
  EPERM: "this user may not write there. Change the folder's owner or mode",
  ENOENT: 'it is not there, and can not be made. Make the folder above it first',
  ENOTDIR: 'a file stands where a folder has to be. Choose another folder',
  EIO: 'the disk fails. Check the disk',
}

/** A failure of the file system in words; every other error stays as it is. */
export function unwritable(folder: string, cause: unknown): unknown {
  const { code, syscall } = cause as NodeJS.ErrnoException
  if (syscall === undefined) return cause
  const reason = reasons[code ?? ''] ?? `the system says ${code}. Check the disk`
  return new VaultError('STORAGE_UNAVAILABLE', `Could not write to ${folder}: ${reason}, then try again.`, {
    cause,
  })
}

/** Makes the vault's folder when it is missing. @throws `STORAGE_UNAVAILABLE`, `VALIDATION_ERROR` when others may look into it. */
export function preparePrivateFolder(folder: string): void {
  try {
    // First without `recursive`, which calls every failure ENOENT.
    if (!existsSync(folder) && existsSync(dirname(folder))) mkdirSync(folder, { mode: folderMode })
    mkdirSync(folder, { recursive: true, mode: folderMode })
  } catch (cause) {
    throw unwritable(folder, cause)
  }
  const { mode } = statSync(folder)
  if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
    throw new VaultError(
      'VALIDATION_ERROR',
      `Expected ${folder} to be closed to other users (mode 0700), got ${(mode & 0o777).toString(8)}. Run: chmod 700 '${folder}'`,
    )
  }
}

/** Makes what was created, renamed or removed in a folder outlast a power cut. */
export function flushFolder(folder: string): void {
  const opened = openSync(folder, 'r')
  try {
    fsyncSync(opened)
  } finally {
    closeSync(opened)
  }
}

/** Puts a whole file in the place of the old one, or leaves the old one: written beside it, flushed, renamed. */
export function replaceFile(file: string, bytes: Uint8Array): void {
  const unfinished = unfinishedName(file)
  try {
    const opened = openSync(unfinished, 'w', fileMode)
    try {
      writeAll(opened, bytes)
      fsyncSync(opened)
    } finally {
      closeSync(opened)
    }
    renameSync(unfinished, file)
    flushFolder(dirname(file))
  } catch (cause) {
    rmSync(unfinished, { force: true })
    throw unwritable(dirname(file), cause)
  }
}

/** Where a file is written before it takes its name. One process writes a vault, so one name is enough. */
export function unfinishedName(file: string): string {
  return join(dirname(file), `.${basename(file)}.unfinished`)
}

/** Writes everything: a single write may take less than it was given. */
export function writeAll(descriptor: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at, bytes.length - at)
}
