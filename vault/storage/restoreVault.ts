import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentRecord } from '../agents/agent.ts'
import { ChainedAuditLog } from '../audit/chainedAuditLog.ts'
import { JournaledBudget } from '../budget/journaledBudget.ts'
import { VaultError } from '../errors/error.ts'
import { systemVaultClock } from '../ports/clock.ts'
import type { Records } from '../ports/records.ts'
import type { Vault } from '../ports/vault.ts'
import type { PairingRecord } from '../remote/pairingRecord.ts'
import type { HostKeys } from '../signer/hostKeys.ts'
import { SigningProcess } from '../signer/signingProcess.ts'
import { backupMagic, backupSaltBytes, part } from './backup.ts'
import { assertNoVault } from './createVault.ts'
import {
  fileMode,
  flushFolder,
  folderMode,
  preparePrivateFolder,
  replaceFile,
  unwritable,
  writeAll,
} from './disk/files.ts'
import { hasMagic } from './disk/formatVersion.ts'
import { readFrame } from './disk/frame.ts'
import { takeHome } from './disk/homeLock.ts'
import { budgetPlace, recordsPlace, type VaultFiles, vaultFiles } from './disk/vaultFiles.ts'
import { type OpenVaultOptions, openLocalVault } from './openVault.ts'
import {
  associatedOf,
  decodeHeader,
  encodeHeader,
  passwordKeyOf,
  proofOf,
  type VaultHeader,
} from './password/header.ts'
import { argon2idHasher } from './password/kdf.ts'
import { Throttle } from './password/throttle.ts'
import { positionsOf, positionsText } from './positions.ts'
import { RecordStore } from './records/recordStore.ts'

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

export interface RestoredVault {
  /** Unlocked. */
  readonly vault: Vault
  readonly suspended: Suspended
}

/**
 * Makes a vault in an empty folder out of a backup and opens it, unlocked. Every agent and pairing in it is suspended until the
 * owner says that it goes on: what was revoked after the backup works in it again, and what was spent since on its day is
 * not counted. The log says so.
 * @throws `BAD_PASSWORD`, `VAULT_CORRUPT`, `VAULT_EXISTS`
 */
export async function restoreVault(options: RestoreVaultOptions): Promise<RestoredVault> {
  const { home, file, password } = options
  const bytes = readFileSync(file)
  const { header, at } = readBackupHeader(bytes)
  const passwordKey = await passwordKeyOf(header, password, options.hasher ?? argon2idHasher)
  const signer = new SigningProcess()
  try {
    const proof = proofOf(header, passwordKey)
    const keys = await signer.open(proof)
    const contents = await readContents(bytes, at, signer)
    // The restored files have names of their own: nothing that the header says of the ones before is true of them.
    const open = { ...header, files: '' }
    const restored = { ...open, wrappedKey: await signer.wrap(proof, passwordKey, associatedOf(open)) }
    preparePrivateFolder(home)
    const lock = await takeHome(home)
    try {
      assertNoVault(home)
      const suspended = await writeContents(options, restored, keys, contents)
      const vault = openLocalVault(options, lock)
      await vault.openNew(signer, keys)
      return { vault, suspended }
    } catch (error) {
      lock.release()
      throw unwritable(home, error)
    }
  } catch (error) {
    await signer.end()
    throw error
  } finally {
    passwordKey.fill(0)
  }
}

function readBackupHeader(bytes: Buffer): { readonly header: VaultHeader; readonly at: number } {
  const headerAt = backupMagic.length + 4
  if (!hasMagic(bytes, backupMagic, 'the backup') || bytes.length < headerAt) throw corrupt()
  const headerEnd = headerAt + bytes.readUInt32BE(backupMagic.length)
  if (headerEnd + backupSaltBytes > bytes.length) throw corrupt()
  return { header: decodeHeader(bytes.subarray(headerAt, headerEnd)), at: headerEnd }
}

async function readContents(bytes: Buffer, at: number, signer: SigningProcess): Promise<Contents> {
  const framesAt = at + backupSaltBytes
  const key = await signer.backupKey(bytes.subarray(at, framesAt))
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
  keys: HostKeys,
  contents: Contents,
): Promise<Suspended> {
  const files = vaultFiles(options.home)
  const clock = options.clock ?? systemVaultClock
  writeFiles(files, contents)
  const records = new RecordStore(clock, () => {})
  records.create(recordsPlace(files, header.vaultId, keys.recordsFile), keys.records, contents.records)
  // All of this is on disk before `vault.json` makes it a vault: there is none in which they are not suspended.
  const suspended = await suspendCallers(records, clock.now())
  const budget = new JournaledBudget(clock, () => {})
  budget.create(budgetPlace(files, header.vaultId, keys.budgetFile), contents.budget)
  const positions = () => positionsOf(records, budget, header)
  const audit = ChainedAuditLog.open({
    folder: files.auditFolder,
    headFile: files.auditHead,
    clock,
    files: () => positionsText(positions()!),
  })
  audit.unlock(keys.audit)
  await note(audit, suspended)
  await records.close()
  await budget.close()
  Throttle.create(files.throttle, clock)
  replaceFile(files.header, encodeHeader(header))
  return suspended
}

async function note(audit: ChainedAuditLog, { agents, pairings }: Suspended): Promise<void> {
  await audit.append({
    agent: 'owner',
    action: 'CONFIG',
    status: 'APPROVED',
    note: `restored from a backup: what came after the entry before this one is not in the vault; ${agents} agents and ${pairings} pairings suspended`,
  })
  await audit.close()
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

/** How many were suspended. */
export interface Suspended {
  readonly agents: number
  readonly pairings: number
}

/**
 * Suspends every agent and every pairing that a backup says may call: what the owner revoked, and which tokens were changed,
 * after the backup is not known in it.
 */
async function suspendCallers(records: Records, nowMs: number): Promise<Suspended> {
  let agents = 0
  let pairings = 0
  for (const { id } of records.list('agent')) {
    const agent = records.getJson<AgentRecord>('agent', id)!
    if (typeof agent.revokedAt === 'string') continue
    await records.putJson('agent', id, { ...agent, suspendedAt: new Date(nowMs).toISOString() })
    agents++
  }
  for (const { id } of records.list('pairing')) {
    const pairing = records.getJson<PairingRecord>('pairing', id)!
    if (pairing.state === 'revoked' || pairing.state === 'refused') continue
    await records.putJson('pairing', id, { ...pairing, suspendedAtMs: nowMs })
    pairings++
  }
  return { agents, pairings }
}
