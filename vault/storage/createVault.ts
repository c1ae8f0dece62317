import { randomBytes } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { databaseFileIn } from '../disk/databaseFile.ts'
import { preparePrivateFolder, replaceFile, unwritable, vaultFiles } from '../disk/files.ts'
import { type HomeLock, takeHome } from '../disk/homeLock.ts'
import { VaultDatabase } from '../disk/vaultDatabase.ts'
import { VaultError } from '../errors/error.ts'
import { createMnemonic, parseMnemonic } from '../keys/mnemonic.ts'
import { systemVaultClock } from '../ports/clock.ts'
import type { Vault } from '../ports/vault.ts'
import type { SealedRecord } from '../signer/custodian.ts'
import type { HostKeys } from '../signer/protocol.ts'
import { SigningProcess } from '../signer/signingProcess.ts'
import { Journals } from './journals.ts'
import { type OpenVaultOptions, openLocalVault } from './localVault.ts'
import {
  associatedOf,
  encodeHeader,
  headerFor,
  newSlot,
  type OpenHeader,
  passwordKeyOf,
} from './password/header.ts'
import { argon2idHasher, assertPassword, calibrateKdf, type KdfParameters } from './password/kdf.ts'
import { Throttle } from './password/passwordGate.ts'

export interface CreateVaultOptions extends OpenVaultOptions {
  /** The password, of 8 to 1,024 characters. */
  readonly password: string
  /** The BIP-39 recovery words in English. Default: 24 random words. */
  readonly mnemonic?: string
  /**
   * Cost of a password attempt, between the minimum (64 MiB, 3 passes) and the maximum. Default: calibrated to 250 ms on this
   * machine.
   */
  readonly kdf?: KdfParameters
}

export interface CreatedVault {
  /** The new vault, unlocked. */
  readonly vault: Vault
  /** The recovery words, for the owner to write down. Show them only once. */
  readonly mnemonic: string
}

/**
 * Creates a vault in an empty folder and opens it, unlocked. `vault.json` is written last. Without that file, the folder is not
 * a vault.
 * @throws `VALIDATION_ERROR`, `VAULT_EXISTS`, `VAULT_IN_USE`, `STORAGE_UNAVAILABLE`
 */
export async function createVault(options: CreateVaultOptions): Promise<CreatedVault> {
  const { home, password } = options
  assertPassword(password)
  const mnemonic = options.mnemonic === undefined ? createMnemonic() : parseMnemonic(options.mnemonic)
  const hasher = options.hasher ?? argon2idHasher
  const kdf = options.kdf ?? (await calibrateKdf(hasher))
  preparePrivateFolder(home)
  const lock = await takeHome(home)
  let signer: SigningProcess | undefined
  try {
    assertNoVault(home)
    const vaultId = `vlt_${randomBytes(12).toString('hex')}`
    const createdAt = new Date((options.clock ?? systemVaultClock).now()).toISOString()
    const open = headerFor({ vaultId, createdAt, place: newSlot(), kdf })
    signer = new SigningProcess()
    const { header, keys, seed } = await makeKeys(
      signer,
      open,
      mnemonic,
      await passwordKeyOf(open, password, hasher),
    )
    await removeOnFailure(home, lock, async () => {
      await writeContents(options, lock, open, keys, seed)
      replaceFile(vaultFiles(home).header, encodeHeader(header))
    })
    const vault = openLocalVault(options, lock)
    await vault.openNew(signer, keys)
    return { vault, mnemonic }
  } catch (error) {
    await signer?.end()
    lock.release()
    throw unwritable(home, error)
  }
}

/** Asks the signing process to create the master key and to seal the seed. Zeroes the password key. */
async function makeKeys(signer: SigningProcess, open: OpenHeader, mnemonic: string, passwordKey: Buffer) {
  const words = Buffer.from(mnemonic, 'utf8')
  try {
    const proof = { vaultId: open.vaultId, associated: associatedOf(open), passwordKey }
    const { wrappedKey, keys } = await signer.create(proof)
    const { sealed } = await signer.importSeed({ ...proof, wrappedKey }, words, 1)
    return { header: { ...open, wrappedKey }, keys, seed: { id: 'seed', version: 1, sealed } }
  } finally {
    passwordKey.fill(0)
    words.fill(0)
  }
}

/** @throws `VAULT_EXISTS`, even if only parts of a vault without `vault.json` exist, because they may still be needed */
export function assertNoVault(home: string): void {
  if (existsSync(vaultFiles(home).header))
    throw new VaultError('VAULT_EXISTS', `${home} already contains a vault. Open that vault.`)
  if (databaseFileIn(home) === undefined) return
  throw new VaultError(
    'VAULT_EXISTS',
    `${home} contains parts of a vault, but no vault.json. These parts may still be needed for recovery. Choose an empty folder.`,
  )
}

/**
 * Writes a vault into a folder without one. If that fails, it removes what was written, so that the folder can be used later,
 * for example when the disk has space.
 */
export async function removeOnFailure<T>(home: string, lock: HomeLock, write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    const { header, auditHead, throttle } = vaultFiles(home)
    const database = databaseFileIn(home)
    if (lock.isOurs() && !existsSync(header))
      for (const file of [
        auditHead,
        throttle,
        ...(database === undefined ? [] : [`${database}-wal`, database]),
      ])
        rmSync(file, { force: true })
    throw error
  }
}

async function writeContents(
  { home, clock = systemVaultClock }: OpenVaultOptions,
  lock: HomeLock,
  { vaultId, place }: OpenHeader,
  keys: HostKeys,
  seed: SealedRecord,
): Promise<void> {
  const files = vaultFiles(home)
  const database = VaultDatabase.create(home, lock.isOurs)
  try {
    const journals = new Journals({ files, database, clock, isNew: true })
    journals.create(vaultId, place.lineage, keys)
    await journals.store.putSealed(seed)
    await journals.lock()
  } finally {
    database.close()
  }
  Throttle.create(files.throttle, clock)
}
