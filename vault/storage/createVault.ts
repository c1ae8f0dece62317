import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { ChainedAuditLog } from '../audit/chainedAuditLog.ts'
import { JournaledBudget } from '../budget/journaledBudget.ts'
import { VaultError } from '../errors/error.ts'
import { createMnemonic, parseMnemonic } from '../keys/mnemonic.ts'
import { systemVaultClock } from '../ports/clock.ts'
import type { KdfParameters } from '../ports/passwordHasher.ts'
import type { Vault } from '../ports/vault.ts'
import { keyBytes } from './aead.ts'
import { deriveKey } from './deriveKey.ts'
import { preparePrivateFolder, replaceFile } from './files.ts'
import { encodeHeader, wrapMasterKey } from './header.ts'
import { takeHome } from './homeLock.ts'
import { argon2idHasher, calibrateKdf } from './kdf.ts'
import { type OpenVaultOptions, openLocalVault } from './openVault.ts'
import { assertPassword } from './password.ts'
import { RecordStore } from './recordStore.ts'
import { encodeSeed } from './seedRecord.ts'
import { Throttle } from './throttle.ts'
import { budgetPlace, recordsPlace, vaultFiles } from './vaultFiles.ts'

export interface CreateVaultOptions extends OpenVaultOptions {
  /** 8 to 1,024 characters. */
  readonly password: string
  /** BIP-39, English; 24 random words when left out. */
  readonly mnemonic?: string
  /** Between the floor (64 MiB, 3 passes) and the cap; measured to take 250 ms here when left out. */
  readonly kdf?: KdfParameters
}

export interface CreatedVault {
  /** Unlocked. */
  readonly vault: Vault
  /** For the owner to write down; show it once. */
  readonly mnemonic: string
}

/**
 * Makes a vault in an empty folder and opens it, unlocked. `vault.json` is written last: before, there is no vault.
 * @throws `VALIDATION_ERROR`, `VAULT_EXISTS`, `VAULT_IN_USE`, `STORAGE_UNAVAILABLE`
 */
export async function createVault(options: CreateVaultOptions): Promise<CreatedVault> {
  const { home, password } = options
  assertPassword(password)
  const mnemonic = options.mnemonic === undefined ? createMnemonic() : parseMnemonic(options.mnemonic)
  const hasher = options.hasher ?? argon2idHasher
  const kdf = options.kdf ?? (await calibrateKdf(hasher))
  preparePrivateFolder(home)
  const lock = takeHome(home)
  const masterKey = randomBytes(keyBytes)
  try {
    assertNoVault(home)
    const vaultId = `vlt_${randomBytes(12).toString('hex')}`
    const createdAt = new Date((options.clock ?? systemVaultClock).now()).toISOString()
    const header = await wrapMasterKey({ vaultId, createdAt, kdf }, masterKey, password, hasher)
    await writeContents(options, vaultId, masterKey, mnemonic)
    replaceFile(vaultFiles(home).header, encodeHeader(header))
    const vault = openLocalVault(options, lock)
    await vault.openNew(masterKey)
    return { vault, mnemonic }
  } catch (error) {
    masterKey.fill(0)
    lock.release()
    throw error
  }
}

/** @throws `VAULT_EXISTS` also when only parts of a vault are there: without its `vault.json` they may still be wanted. */
export function assertNoVault(home: string): void {
  const { header, records } = vaultFiles(home)
  if (existsSync(header))
    throw new VaultError('VAULT_EXISTS', `There is a vault in ${home} already. Open it.`)
  if (!existsSync(records)) return
  throw new VaultError(
    'VAULT_EXISTS',
    `There are parts of a vault in ${home}, but no vault.json: a backup may still open them. Choose an empty folder.`,
  )
}

async function writeContents(
  options: OpenVaultOptions,
  vaultId: string,
  masterKey: Buffer,
  mnemonic: string,
) {
  const files = vaultFiles(options.home)
  const clock = options.clock ?? systemVaultClock
  const seed = await encodeSeed(mnemonic)
  const records = new RecordStore(clock, () => {})
  records.create(recordsPlace(files, vaultId, masterKey))
  await records.put('key', 'seed', seed)
  seed.fill(0)
  await records.close()
  const budget = new JournaledBudget(clock, () => {})
  budget.create(budgetPlace(files, vaultId, masterKey))
  await budget.close()
  const audit = ChainedAuditLog.open({
    folder: files.auditFolder,
    headFile: files.auditHead,
    clock,
    isNew: true,
  })
  const auditKey = deriveKey(masterKey, 'audit', vaultId, new Uint8Array(0))
  audit.unlock(auditKey)
  auditKey.fill(0)
  await audit.close()
  Throttle.create(files.throttle, clock)
}
