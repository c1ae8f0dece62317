import { readFileSync } from 'node:fs'
import type { AgentRecord } from '../agents/agents.ts'
import { hasMagic, preparePrivateFolder, replaceFile, unwritable, vaultFiles } from '../disk/files.ts'
import { type HomeLock, takeHome } from '../disk/homeLock.ts'
import { VaultDatabase, writeDatabase } from '../disk/vaultDatabase.ts'
import { VaultError } from '../errors/error.ts'
import { systemVaultClock } from '../ports/clock.ts'
import type { Records } from '../ports/records.ts'
import type { Vault } from '../ports/vault.ts'
import type { PairingRecord } from '../remote/pairingRecord.ts'
import type { HostKeys } from '../signer/protocol.ts'
import { SigningProcess } from '../signer/signingProcess.ts'
import { backupMagic, backupSaltBytes, readFrame } from './backup.ts'
import { assertNoVault, removeOnFailure } from './createVault.ts'
import { Journals } from './journals.ts'
import { type OpenVaultOptions, openLocalVault } from './localVault.ts'
import {
  associatedOf,
  decodeHeader,
  encodeHeader,
  newSlot,
  passwordKeyOf,
  proofOf,
  type VaultHeader,
} from './password/header.ts'
import { argon2idHasher } from './password/kdf.ts'
import { Throttle } from './password/passwordGate.ts'

export interface RestoreVaultOptions extends OpenVaultOptions {
  readonly file: string
  /** The vault's password at the time of the backup. */
  readonly password: string
}

export interface RestoredVault {
  readonly vault: Vault
  readonly suspended: Suspended
}

/**
 * Creates a vault in an empty folder from a backup and opens it, unlocked. Every agent and pairing in it is suspended until the
 * owner resumes it. The backup may have agents and tokens that were revoked later, and lacks money that was spent later. The
 * log records the restore.
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
    const open = { ...header, place: newSlot() }
    const restored = { ...open, wrappedKey: await signer.wrap(proof, passwordKey, associatedOf(open)) }
    preparePrivateFolder(home)
    const lock = await takeHome(home)
    try {
      assertNoVault(home)
      const suspended = await removeOnFailure(home, lock, () =>
        writeContents(options, lock, header, restored, keys, contents),
      )
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

async function readContents(bytes: Buffer, at: number, signer: SigningProcess): Promise<Buffer[]> {
  const framesAt = at + backupSaltBytes
  const key = await signer.backupKey(bytes.subarray(at, framesAt))
  const chunks: Buffer[] = []
  try {
    for (let offset = framesAt; ; ) {
      const read = readFrame(key, chunks.length, bytes, offset)
      if (read.kind !== 'frame') throw corrupt()
      offset = read.next
      if (read.payload.length > 0) chunks.push(read.payload)
      else if (offset === bytes.length) return chunks
      else throw corrupt()
    }
  } finally {
    key.fill(0)
  }
}

async function writeContents(
  { home, clock = systemVaultClock }: OpenVaultOptions,
  lock: HomeLock,
  before: VaultHeader,
  restored: VaultHeader,
  keys: HostKeys,
  contents: readonly Buffer[],
): Promise<Suspended> {
  const files = vaultFiles(home)
  await writeDatabase(home, contents)
  const database = VaultDatabase.open(home, lock.isOurs, true)
  let suspended: Suspended
  try {
    const journals = new Journals({ files, database, clock, isNew: true })
    journals.openAs(restored.place.lineage, before, keys)
    // The agents are suspended before `vault.json` is written, which makes the folder a vault.
    suspended = await suspendCallers(journals.store, clock.now())
    const { agents, pairings } = suspended
    await journals.audit.append({
      agent: 'owner',
      action: 'CONFIG',
      status: 'APPROVED',
      note: `restored from a backup: changes after the previous entry are not in this vault; ${agents} agents and ${pairings} pairings suspended`,
    })
    await journals.lock()
  } finally {
    database.close()
  }
  Throttle.create(files.throttle, clock)
  replaceFile(files.header, encodeHeader(restored))
  return suspended
}

function corrupt(): VaultError {
  return new VaultError('VAULT_CORRUPT', 'The backup is damaged or incomplete. Use another backup.')
}

/** The numbers of suspended agents and pairings. */
export interface Suspended {
  readonly agents: number
  readonly pairings: number
}

/**
 * Suspends every agent and every pairing that may call according to the backup. After the backup was made, the owner may have
 * revoked some of them or changed their tokens.
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
