import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, statSync, writeSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { VaultError } from '../../errors/error.ts'

/** Only the owner reads and writes a file of the vault. */
export const fileMode = 0o600
export const folderMode = 0o700

/** Makes the vault's folder when it is missing. @throws `VALIDATION_ERROR` when others may look into it. */
export function preparePrivateFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: folderMode })
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
    throw new VaultError('STORAGE_UNAVAILABLE', `Could not write ${basename(file)} in the vault's folder.`, {
      cause,
    })
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
