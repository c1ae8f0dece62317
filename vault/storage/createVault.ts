import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { ChainedAuditLog } from '../audit/chainedAuditLog.ts'
import { JournaledBudget } from '../budget/journaledBudget.ts'
import { VaultError } from '../errors/error.ts'
import { createMnemonic, parseMnemonic } from '../keys/mnemonic.ts'
import { systemVaultClock } from '../ports/clock.ts'
import type { KdfParameters } from '../ports/passwordHasher.ts'
import type { Vault } from '../ports/vault.ts'
import type { SealedRecord } from '../signer/custodian.ts'
import type { HostKeys } from '../signer/hostKeys.ts'
import { SigningProcess } from '../signer/signingProcess.ts'
import { preparePrivateFolder, replaceFile, unwritable } from './disk/files.ts'
import { takeHome } from './disk/homeLock.ts'
import { budgetPlace, recordsPlace, vaultFiles } from './disk/vaultFiles.ts'
import { type OpenVaultOptions, openLocalVault } from './openVault.ts'
import { associatedOf, encodeHeader, headerFor, type OpenHeader, passwordKeyOf } from './password/header.ts'
import { argon2idHasher, assertPassword, calibrateKdf } from './password/kdf.ts'
import { Throttle } from './password/throttle.ts'
import { RecordStore } from './records/recordStore.ts'

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
  const lock = await takeHome(home)
  let signer: SigningProcess | undefined
  try {
    assertNoVault(home)
    const vaultId = `vlt_${randomBytes(12).toString('hex')}`
    const createdAt = new Date((options.clock ?? systemVaultClock).now()).toISOString()
    const open = headerFor({ vaultId, createdAt, files: '', kdf })
    signer = new SigningProcess()
    const { header, keys, seed } = await makeKeys(
      signer,
      open,
      mnemonic,
      await passwordKeyOf(open, password, hasher),
    )
    await writeContents(options, vaultId, keys, seed)
    replaceFile(vaultFiles(home).header, encodeHeader(header))
    const vault = openLocalVault(options, lock)
    await vault.openNew(signer, keys)
    return { vault, mnemonic }
  } catch (error) {
    await signer?.end()
    lock.release()
    throw unwritable(home, error)
  }
}

/** Has the signing process make the master key and seal the seed. Zeroes the password key. */
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

async function writeContents(options: OpenVaultOptions, vaultId: string, keys: HostKeys, seed: SealedRecord) {
  const files = vaultFiles(options.home)
  const clock = options.clock ?? systemVaultClock
  const records = new RecordStore(clock, () => {})
  records.create(recordsPlace(files, vaultId, keys.recordsFile), keys.records)
  await records.putSealed(seed)
  await records.close()
  const budget = new JournaledBudget(clock, () => {})
  budget.create(budgetPlace(files, vaultId, keys.budgetFile))
  await budget.close()
  const audit = ChainedAuditLog.open({
    folder: files.auditFolder,
    headFile: files.auditHead,
    clock,
    isNew: true,
  })
  audit.unlock(keys.audit)
  await audit.close()
  Throttle.create(files.throttle, clock)
}
