import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { JournaledBudget } from '../budget/journaledBudget.ts'
import { VaultError } from '../errors/error.ts'
import { systemVaultClock } from '../ports/clock.ts'
import type { Vault } from '../ports/vault.ts'
import { backupMagic, backupSaltBytes, backupUse, part } from './backup.ts'
import { assertNoVault } from './createVault.ts'
import { deriveKey } from './deriveKey.ts'
import { fileMode, flushFolder, folderMode, preparePrivateFolder, replaceFile, writeAll } from './files.ts'
import { readFrame } from './frame.ts'
import { decodeHeader, encodeHeader, unwrapMasterKey, type VaultHeader } from './header.ts'
import { takeHome } from './homeLock.ts'
import { argon2idHasher } from './kdf.ts'
import { type OpenVaultOptions, openLocalVault } from './openVault.ts'
import { RecordStore } from './recordStore.ts'
import { Throttle } from './throttle.ts'
import { budgetPlace, recordsPlace, type VaultFiles, vaultFiles } from './vaultFiles.ts'

export interface RestoreVaultOptions extends OpenVaultOptions {
  readonly file: string
  /** The one that the vault had when the backup was made. */
  readonly password: string
}

interface Contents {
  readonly records: Buffer[]
  readonly budget: Buffer[]
  readonly files: { readonly name: string; readonly bytes: Buffer }[]
}

const fileNames = /^(?:audit\.head|audit\/\d{15}\.jsonl)$/

/**
 * Makes a vault in an empty folder out of a backup and opens it, unlocked. What was spent since the backup on its day is not
 * in it: look at the budgets before letting agents go on.
 * @throws `BAD_PASSWORD`, `VAULT_CORRUPT`, `VAULT_EXISTS`
 */
export async function restoreVault(options: RestoreVaultOptions): Promise<Vault> {
  const { home, file, password } = options
  const bytes = readFileSync(file)
  const { header, at } = readBackupHeader(bytes)
  const masterKey = await unwrapMasterKey(header, password, options.hasher ?? argon2idHasher)
  if (masterKey === undefined) throw new VaultError('BAD_PASSWORD')
  try {
    const contents = readContents(bytes, at, header, masterKey)
    preparePrivateFolder(home)
    const lock = takeHome(home)
    try {
      assertNoVault(home)
      await writeContents(options, header, masterKey, contents)
      const vault = openLocalVault(options, lock)
      await vault.openNew(masterKey)
      return vault
    } catch (error) {
      lock.release()
      throw error
    }
  } catch (error) {
    masterKey.fill(0)
    throw error
  }
}

function readBackupHeader(bytes: Buffer): { readonly header: VaultHeader; readonly at: number } {
  const headerAt = backupMagic.length + 4
  if (bytes.length < headerAt || !bytes.subarray(0, backupMagic.length).equals(backupMagic)) throw corrupt()
  const headerEnd = headerAt + bytes.readUInt32BE(backupMagic.length)
  if (headerEnd + backupSaltBytes > bytes.length) throw corrupt()
  return { header: decodeHeader(bytes.subarray(headerAt, headerEnd)), at: headerEnd }
}

function readContents(bytes: Buffer, at: number, header: VaultHeader, masterKey: Buffer): Contents {
  const framesAt = at + backupSaltBytes
  const key = deriveKey(masterKey, backupUse, header.vaultId, bytes.subarray(at, framesAt))
  const contents: Contents = { records: [], budget: [], files: [] }
  try {
    for (let index = 0, offset = framesAt; ; index++) {
      const read = readFrame(key, index, bytes, offset)
      if (read.kind !== 'frame') throw corrupt()
      const kind = read.payload[0]
      const payload = read.payload.subarray(1)
      offset = read.next
      if (kind === part.end) {
        if (offset !== bytes.length) throw corrupt()
        return contents
      }
      if (kind === part.record) contents.records.push(payload)
      if (kind === part.budget) contents.budget.push(payload)
      if (kind === part.file) contents.files.push(readFilePart(payload))
    }
  } finally {
    key.fill(0)
  }
}

function readFilePart(payload: Buffer) {
  const nameEnd = 4 + payload.readUInt32BE(0)
  const name = payload.toString('utf8', 4, nameEnd)
  if (!fileNames.test(name)) throw corrupt()
  return { name, bytes: payload.subarray(nameEnd + 4) }
}

async function writeContents(
  options: OpenVaultOptions,
  header: VaultHeader,
  masterKey: Buffer,
  contents: Contents,
): Promise<void> {
  const files = vaultFiles(options.home)
  const clock = options.clock ?? systemVaultClock
  writeFiles(files, contents)
  const records = new RecordStore(clock, () => {})
  records.create(recordsPlace(files, header.vaultId, masterKey), contents.records)
  await records.close()
  const budget = new JournaledBudget(clock, () => {})
  budget.create(budgetPlace(files, header.vaultId, masterKey), contents.budget)
  await budget.close()
  Throttle.create(files.throttle, clock)
  replaceFile(files.header, encodeHeader(header))
}

function writeFiles(files: VaultFiles, contents: Contents): void {
  if (existsSync(files.auditFolder))
    throw new VaultError('VAULT_EXISTS', 'Expected an empty folder, found a log in it.')
  mkdirSync(files.auditFolder, { mode: folderMode })
  for (const { name, bytes } of contents.files) {
    const opened = openSync(join(files.home, name), 'a', fileMode)
    try {
      writeAll(opened, bytes)
      fsyncSync(opened)
    } finally {
      closeSync(opened)
    }
  }
  flushFolder(files.auditFolder)
}

function corrupt(): VaultError {
  return new VaultError('VAULT_CORRUPT', 'The backup is damaged or incomplete. Use another one.')
}
