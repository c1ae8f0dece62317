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
import { VaultError } from '../errors/error.ts'

/** Mode of a file of the vault. Only the owner can read and write it. */
export const fileMode = 0o600
export const folderMode = 0o700

/** Messages for the codes of the file system. */
const reasons: Readonly<Record<string, string>> = {
  EROFS: 'the file system is read-only. Mount it for writing',
  ENOSPC: 'the disk is full. Free some space',
  EDQUOT: "this user's disk quota is used up. Free some space",
  EACCES: "this user may not write to the folder. Change the folder's owner or mode",
  EPERM: "this user may not write to the folder. Change the folder's owner or mode",
  ENOENT: 'the folder does not exist and cannot be created. Create its parent folder first',
  ENOTDIR: 'a file has the name of a needed folder. Choose another folder',
  EIO: 'the disk returned an I/O error. Check the disk',
}

/** Turns a failure of the file system into an error with a message. Every other error stays unchanged. */
export function unwritable(folder: string, cause: unknown): unknown {
  const { code, syscall } = cause as NodeJS.ErrnoException
  if (syscall === undefined) return cause
  const reason = reasons[code ?? ''] ?? `the system returned ${code}. Check the disk`
  return new VaultError('STORAGE_UNAVAILABLE', `Could not write to ${folder}: ${reason}, then try again.`, {
    cause,
  })
}

/**
 * Creates the vault's folder if it is missing.
 * @throws `STORAGE_UNAVAILABLE`, or `VALIDATION_ERROR` if other users can access it
 */
export function preparePrivateFolder(folder: string): void {
  try {
    // The first attempt is without `recursive`, which would report every failure as ENOENT.
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

/** Flushes a folder, so that a creation, rename or removal in it survives a power cut. */
export function flushFolder(folder: string): void {
  const opened = openSync(folder, 'r')
  try {
    fsyncSync(opened)
  } finally {
    closeSync(opened)
  }
}

/** Replaces a file completely or not at all. The new content is written beside it, flushed, and renamed. */
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

/** The temporary name of a file. There is one for each file, because only one process writes a vault. */
export function unfinishedName(file: string): string {
  return join(dirname(file), `.${basename(file)}.unfinished`)
}

/** Writes all bytes. A single write call may write only some of them. */
export function writeAll(descriptor: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at, bytes.length - at)
}

/** The paths of a vault's files in its folder, beside its database. */
export interface VaultFiles {
  readonly home: string
  readonly header: string
  readonly throttle: string
  readonly auditHead: string
}

export function vaultFiles(home: string): VaultFiles {
  return {
    home,
    header: join(home, 'vault.json'),
    throttle: join(home, 'attempts.json'),
    auditHead: join(home, 'audit.head'),
  }
}

/** The error for a folder without `vault.json`. */
export const noVaultIn = (home: string): VaultError =>
  new VaultError(
    'VAULT_NOT_FOUND',
    `Expected a vault in ${home}, but there is no vault.json. Create one with tollgate vault init, or name the vault's folder with --home.`,
  )

/** Position of the format version in the first 8 bytes of a sealed log or a backup. The version is two digits. */
const versionAt = 6

/**
 * Whether a file begins with the magic bytes of its format and version.
 * @param name the file's name in messages
 * @throws `VAULT_CORRUPT` when a newer version of Tollgate wrote it
 */
export function hasMagic(bytes: Buffer, magic: Buffer, name: string): boolean {
  const found = bytes.subarray(0, magic.length)
  if (found.equals(magic)) return true
  const version = found.toString('latin1', versionAt)
  const isNewer =
    found.subarray(0, versionAt).equals(magic.subarray(0, versionAt)) &&
    /^\d\d$/.test(version) &&
    version > magic.toString('latin1', versionAt)
  if (isNewer) throw newerVersion(name, magic.toString('latin1', versionAt), version)
  return false
}

export function newerVersion(name: string, expected: number | string, got: number | string): VaultError {
  const action = 'Install that version again, or restore a backup that this version wrote.'
  return new VaultError(
    'VAULT_CORRUPT',
    `Expected version ${expected} of ${name}, got version ${got}, which a newer version of Tollgate wrote. ${action}`,
    { action },
  )
}
