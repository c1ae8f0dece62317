import type { ChainedAuditLog } from '../audit/chainedAuditLog.ts'
import type { AuditLimits } from '../audit/dropOld.ts'
import type { JournaledBudget } from '../budget/journaledBudget.ts'
import { VaultError } from '../errors/error.ts'
import type { VaultKeyring } from '../keys/vaultKeyring.ts'
import type { VaultClock } from '../ports/clock.ts'
import type { KeyFamily, KeyInfo } from '../ports/keyring.ts'
import type { PasswordHasher } from '../ports/passwordHasher.ts'
import type { Records } from '../ports/records.ts'
import type { Door, LockReason, Vault, VaultState } from '../ports/vault.ts'
import { createSigner, type OwnedSigner } from '../signer/createSigner.ts'
import { type HostKeys, zeroHostKeys } from '../signer/hostKeys.ts'
import type { Proof } from '../signer/protocol.ts'
import { SigningProcess } from '../signer/signingProcess.ts'
import type { HomeLock } from './disk/homeLock.ts'
import type { VaultFiles } from './disk/vaultFiles.ts'
import { Journals } from './journals.ts'
import { assertPassword } from './password/kdf.ts'
import { type AutoLockOptions, LockState } from './password/lockState.ts'
import { PasswordGate } from './password/passwordGate.ts'
import { KeptKeys } from './records/keptKeys.ts'
import { createPublicRecords } from './records/publicRecords.ts'

export interface LocalVaultOptions {
  readonly files: VaultFiles
  readonly lock: HomeLock
  readonly clock: VaultClock
  readonly hasher: PasswordHasher
  readonly autoLock: AutoLockOptions
  readonly logLimits?: AuditLimits
}

/** {@link Vault} in a folder of this machine. The master key is in the signing process; here are the host's keys only. */
export class LocalVault implements Vault {
  readonly #homeLock: HomeLock
  readonly #gate: PasswordGate
  readonly #lockState: LockState
  /** Unlocking, locking and everything that asks for the password happen one after the other. */
  #turn: Promise<unknown> = Promise.resolve()

  readonly #journals: Journals
  /** True while unlocking itself needs what is behind the lock. */
  #isOpening = false
  /** True from the first file that was opened to the last that was closed. */
  #isOpen = false

  readonly #keptKeys: KeptKeys
  readonly records: Records
  readonly keys: VaultKeyring
  readonly signer: OwnedSigner
  readonly budget: JournaledBudget
  readonly audit: ChainedAuditLog

  constructor({ files, lock, clock, hasher, autoLock, logLimits }: LocalVaultOptions) {
    this.#homeLock = lock
    lock.onLost(() => void this.lock('taken').catch(() => {}))
    this.#gate = new PasswordGate(files, clock, hasher)
    this.#lockState = new LockState(clock, autoLock, (reason) => void this.lock(reason).catch(() => {}))
    const beforeUse = () => {
      if (!this.#isOpening) this.assertUnlocked()
    }
    this.#journals = new Journals({
      files,
      header: () => this.#gate.header,
      clock,
      limits: logLimits,
      beforeUse,
    })
    const { store, budget, audit } = this.#journals
    this.records = createPublicRecords(store)
    this.budget = budget
    this.audit = audit
    this.signer = createSigner({ beforeUse, lost: () => void this.lock('signer').catch(() => {}) })
    this.#keptKeys = new KeptKeys(store, this.signer, beforeUse)
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

  unlock(password: string, door: Door = 'socket'): Promise<VaultState> {
    return this.#inTurn(async () => {
      // A second unlock proves the password again and begins the time anew.
      if (this.#lockState.isUnlocked) {
        await this.#gate.prove(password, door, (proof) => this.signer.process.check(proof))
        this.#lockState.renew()
        return this.state
      }
      await this.#withProcess((process) =>
        this.#gate.prove(
          password,
          door,
          (proof) => process.open(proof),
          (_proof, keys) => this.#openWith(process, keys),
        ),
      )
      return this.state
    })
  }

  /** Opens a vault that was just made or restored, without its password. Takes process and keys over. */
  openNew(process: SigningProcess, keys: HostKeys): Promise<void> {
    return this.#inTurn(() => this.#openWith(process, keys))
  }

  lock(reason: LockReason = 'owner'): Promise<void> {
    // At once, and not in turn: from here on nobody gets anything.
    const wasUnlocked = this.#lockState.end(reason)
    return this.#inTurn(async () => {
      // An unlocking that was under way may have ended meanwhile.
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
        const prove = (proof: Proof) => this.signer.process.check(proof)
        return this.#gate.change(
          this.signer.process,
          current,
          next,
          prove,
          () => this.#journals.withNewHeader,
        )
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
    await this.audit.close()
    this.#homeLock.release()
  }

  /** Takes both over: keeps the process when all of the vault opens, ends it when not, and zeroes the keys. */
  async #openWith(process: SigningProcess, keys: HostKeys): Promise<void> {
    await this.#shut()
    if (!this.#homeLock.isOurs())
      throw new VaultError(
        'VAULT_IN_USE',
        'Another process has opened this vault, because this one stood still for too long. Stop one of the two.',
      )
    this.#isOpen = true
    this.#isOpening = true
    try {
      this.#journals.open(this.vaultId, keys)
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

  /** Locked, the process and the files are opened for this alone: each keeps how far the others had come. */
  async #changeLocked(process: SigningProcess, current: string, next: string): Promise<void> {
    const open = (proof: Proof) => process.open(proof)
    this.#isOpening = true
    try {
      await this.#gate.change(process, current, next, open, (keys) => {
        this.#journals.open(this.vaultId, keys)
        zeroHostKeys(keys)
        return this.#journals.withNewHeader
      })
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

  /** A new process, which is ended when the work with it fails. */
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
