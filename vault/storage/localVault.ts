import { existsSync } from 'node:fs'
import type { AuditLimits } from '../audit/auditEntry.ts'
import type { ChainedAuditLog } from '../audit/chainedAuditLog.ts'
import type { JournaledBudget } from '../budget/journaledBudget.ts'
import { noVaultIn, preparePrivateFolder, unwritable, type VaultFiles, vaultFiles } from '../disk/files.ts'
import { type HomeLock, homeLost, takeHome } from '../disk/homeLock.ts'
import { VaultDatabase } from '../disk/vaultDatabase.ts'
import type { VaultKeyring } from '../keys/vaultKeyring.ts'
import { systemVaultClock, type VaultClock } from '../ports/clock.ts'
import type { KeyFamily, KeyInfo } from '../ports/keyring.ts'
import type { Records } from '../ports/records.ts'
import type { LockReason, Transport, Vault, VaultState } from '../ports/vault.ts'
import { type HostKeys, type Proof, zeroHostKeys } from '../signer/protocol.ts'
import { OwnedSigner, SigningProcess } from '../signer/signingProcess.ts'
import { Journals } from './journals.ts'
import { argon2idHasher, assertPassword, type PasswordHasher } from './password/kdf.ts'
import { type AutoLockOptions, LockState } from './password/lockState.ts'
import { PasswordGate } from './password/passwordGate.ts'
import { createPublicRecords } from './records/recordStore.ts'
import { StoredKeys } from './records/storedKeys.ts'

export interface LocalVaultOptions {
  readonly files: VaultFiles
  readonly lock: HomeLock
  readonly clock: VaultClock
  readonly hasher: PasswordHasher
  readonly autoLock: AutoLockOptions
  readonly logLimits?: AuditLimits
}

/**
 * A {@link Vault} in a folder on this machine. The master key is in the signing process. This process has only the host's
 * keys.
 */
export class LocalVault implements Vault {
  readonly #homeLock: HomeLock
  readonly #gate: PasswordGate
  readonly #lockState: LockState
  /** Unlocking, locking and all work that requires the password run one after the other. */
  #turn: Promise<unknown> = Promise.resolve()

  readonly #journals: Journals
  /** True during an unlock, which itself needs access to locked data. */
  #isOpening = false
  /** True from the opening of the first file until the last one is closed. */
  #isOpen = false

  readonly #keptKeys: StoredKeys
  readonly records: Records
  readonly keys: VaultKeyring
  readonly signer: OwnedSigner
  readonly budget: JournaledBudget
  readonly audit: ChainedAuditLog

  constructor({ files, lock, clock, hasher, autoLock, logLimits }: LocalVaultOptions) {
    this.#homeLock = lock
    lock.onLost(() => void this.lock('taken').catch(() => {}))
    this.#gate = new PasswordGate(files, clock, hasher, lock.isOurs)
    this.#lockState = new LockState(clock, autoLock, (reason) => void this.lock(reason).catch(() => {}))
    const beforeUse = () => {
      if (!this.#isOpening) this.assertUnlocked()
    }
    const database = VaultDatabase.open(files.home, lock.isOurs, lock.wasReleased)
    try {
      this.#journals = new Journals({ files, database, clock, limits: logLimits, beforeUse })
    } catch (error) {
      database.close()
      throw error
    }
    const { store, budget, audit } = this.#journals
    this.records = createPublicRecords(store)
    this.budget = budget
    this.audit = audit
    this.signer = new OwnedSigner({ beforeUse, lost: () => void this.lock('signer').catch(() => {}) })
    this.#keptKeys = new StoredKeys(store, this.signer, beforeUse)
    this.keys = this.#keptKeys.keyring
  }

  get vaultId(): string {
    return this.#gate.header.vaultId
  }

  get state(): VaultState {
    return {
      vaultId: this.vaultId,
      ...this.#lockState.view,
      retryAfterMs: this.#gate.waitMs('socket'),
      pageRetryAfterMs: this.#gate.waitMs('page'),
      auditDamage: this.audit.damage,
    }
  }

  assertUnlocked(): void {
    this.#lockState.assertUnlocked()
  }

  onLock(listener: (reason: LockReason) => void): () => void {
    return this.#lockState.onLock(listener)
  }

  unlock(password: string, transport: Transport = 'socket'): Promise<VaultState> {
    return this.#inTurn(async () => {
      // If the vault is already unlocked, the password is checked again and the timers restart.
      if (this.#lockState.isUnlocked) {
        await this.#gate.prove(password, transport, (proof) => this.signer.process.check(proof))
        this.#lockState.renew()
        return this.state
      }
      await this.#withProcess((process) =>
        this.#gate.prove(
          password,
          transport,
          (proof) => process.open(proof),
          (_proof, keys) => this.#openWith(process, keys),
        ),
      )
      return this.state
    })
  }

  /** Opens a vault that was just created or restored, without its password. Takes ownership of the process and the keys. */
  openNew(process: SigningProcess, keys: HostKeys): Promise<void> {
    return this.#inTurn(() => this.#openWith(process, keys))
  }

  lock(reason: LockReason = 'owner'): Promise<void> {
    // The lock does not wait in the queue, so that from now on no caller gets anything.
    const wasUnlocked = this.#lockState.end(reason)
    return this.#inTurn(async () => {
      // An unlock that was running may have finished meanwhile.
      const isUnlocked = this.#lockState.end(reason)
      if (reason === 'signer' && (wasUnlocked || isUnlocked)) await this.#journals.noteLoss()
      await this.#shut()
      if (!wasUnlocked && !isUnlocked) return
      this.#lockState.tell(reason)
    })
  }

  changePassword(current: string, next: string): Promise<void> {
    assertPassword(next)
    return this.#inTurn(async () => {
      if (this.#lockState.isUnlocked) {
        const { process } = this.signer
        const prove = (proof: Proof) => process.check(proof)
        const place = () => this.#journals.nextPlace
        return this.#journals.keepPlace(await this.#gate.change(process, current, next, prove, place))
      }
      await this.#withProcess((own) => this.#changeLocked(own, current, next))
    })
  }

  exportMnemonic(password: string): Promise<string> {
    return this.#withPassword(password, (proof) => this.#keptKeys.exportMnemonic(proof))
  }

  importMnemonic(password: string, mnemonic: string): Promise<void> {
    return this.#withPassword(password, (proof) => this.#keptKeys.importMnemonic(proof, mnemonic))
  }

  importKey(
    password: string,
    family: KeyFamily,
    name: string,
    privateKey: Uint8Array,
    isTest = false,
  ): Promise<KeyInfo> {
    return this.#withPassword(password, (proof) =>
      this.#keptKeys.importKey(proof, family, name, privateKey, isTest),
    ).finally(() => privateKey.fill(0))
  }

  exportKey(password: string, keyId: string): Promise<Buffer> {
    return this.#withPassword(password, (proof) => this.#keptKeys.exportKey(proof, keyId))
  }

  backup(file: string): Promise<void> {
    return this.#inTurn(async () => {
      this.assertUnlocked()
      await this.#journals.backup(file, this.#gate.header, this.signer.process)
    })
  }

  async close(): Promise<void> {
    if (this.#gate.isClosed) return
    this.#gate.close()
    await this.lock('closing')
    this.#journals.close()
    this.#homeLock.release()
  }

  /**
   * Opens the vault with a process and keys, of which it takes ownership. If anything fails to open, it ends the process. It
   * zeroes the keys.
   */
  async #openWith(process: SigningProcess, keys: HostKeys): Promise<void> {
    await this.#shut()
    if (!this.#homeLock.isOurs()) throw homeLost()
    this.#isOpen = true
    this.#isOpening = true
    try {
      this.#journals.open(this.#gate.header, keys)
      for (const record of this.#keptKeys.sealed) await process.load(record)
      this.signer.start(process)
      await this.#keptKeys.open()
      await this.#journals.noteState()
      this.#lockState.begin()
    } catch (error) {
      await process.end()
      await this.#shut()
      throw error
    } finally {
      this.#isOpening = false
      zeroHostKeys(keys)
    }
  }

  /**
   * Changes the password of a locked vault. It opens the process and the database only for this. The database is needed because
   * it records the number of password changes.
   */
  async #changeLocked(process: SigningProcess, current: string, next: string): Promise<void> {
    const open = (proof: Proof) => process.open(proof)
    this.#isOpening = true
    try {
      const place = await this.#gate.change(process, current, next, open, (keys) => {
        this.#journals.open(this.#gate.header, keys)
        zeroHostKeys(keys)
        return this.#journals.nextPlace
      })
      await this.#journals.keepPlace(place)
      await process.end()
    } finally {
      await this.#journals.lock()
      this.#isOpening = false
    }
  }

  async #shut(): Promise<void> {
    if (!this.#isOpen) return
    this.keys.clear()
    await this.signer.stop()
    await this.#journals.lock()
    this.#isOpen = false
  }

  #withPassword<T>(password: string, act: (proof: Proof) => Promise<T>): Promise<T> {
    return this.#inTurn(async () => {
      this.assertUnlocked()
      const prove = (proof: Proof) => this.signer.process.check(proof)
      return (await this.#gate.prove(password, 'socket', prove, act)) as T
    })
  }

  /** Runs work with a new process, and ends the process if the work fails. */
  async #withProcess(work: (process: SigningProcess) => Promise<unknown>): Promise<void> {
    const process = new SigningProcess()
    try {
      await work(process)
    } catch (error) {
      await process.end()
      throw error
    }
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(act)
    this.#turn = turn.catch(() => {})
    return turn
  }
}

export interface OpenVaultOptions {
  /** The vault's folder, which other users cannot read. */
  readonly home: string
  /** Time limits after which the vault locks itself. Default: 15 minutes without use, 12 hours in all. */
  readonly autoLock?: Partial<AutoLockOptions>
  readonly clock?: VaultClock
  /** How much of the log is kept. Absent: nothing is dropped, as in a command that opens the folder only once. */
  readonly logLimits?: AuditLimits
  /** For tests. */
  readonly hasher?: PasswordHasher
}

const defaultAutoLock: AutoLockOptions = { idleMs: 15 * 60_000, maxAgeMs: 12 * 60 * 60_000 }

/**
 * Opens the vault of a folder for this process alone. It is locked at first.
 * @throws `VAULT_NOT_FOUND`, `VAULT_IN_USE`, `VAULT_CORRUPT`
 * @example const vault = await openVault({ home: `${homedir()}/.tollgate/vault` }) await vault.unlock(password) const { address
 *   } = vault.keys.default('solana')
 */
export async function openVault(options: OpenVaultOptions): Promise<Vault> {
  const files = vaultFiles(options.home)
  if (!existsSync(files.header)) throw noVaultIn(options.home)
  preparePrivateFolder(options.home)
  const lock = await takeHome(options.home)
  try {
    return openLocalVault(options, lock)
  } catch (error) {
    lock.release()
    throw unwritable(options.home, error)
  }
}

/** Opens the vault of a folder whose lock this process already has. */
export function openLocalVault(options: OpenVaultOptions, lock: HomeLock): LocalVault {
  return new LocalVault({
    files: vaultFiles(options.home),
    lock,
    clock: options.clock ?? systemVaultClock,
    hasher: options.hasher ?? argon2idHasher,
    autoLock: { ...defaultAutoLock, ...options.autoLock },
    ...(options.logLimits !== undefined && { logLimits: options.logLimits }),
  })
}
