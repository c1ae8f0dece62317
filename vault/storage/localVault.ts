import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { ChainedAuditLog } from '../audit/chainedAuditLog.ts'
import type { AuditLimits } from '../audit/dropOld.ts'
import { JournaledBudget } from '../budget/journaledBudget.ts'
import { isVaultError, VaultError } from '../errors/error.ts'
import { importedKeyId, parseDerivedKeyId } from '../keys/keyId.ts'
import { type KeyringState, VaultKeyring } from '../keys/vaultKeyring.ts'
import type { AuditMark } from '../ports/audit.ts'
import type { VaultClock } from '../ports/clock.ts'
import type { KeyFamily, KeyInfo } from '../ports/keyring.ts'
import type { PasswordHasher } from '../ports/passwordHasher.ts'
import type { Records } from '../ports/records.ts'
import type { Door, LockReason, Vault, VaultState } from '../ports/vault.ts'
import { createSigner } from '../signer/createSigner.ts'
import type { SealedRecord } from '../signer/custodian.ts'
import { type HostKeys, zeroHostKeys } from '../signer/hostKeys.ts'
import type { Proof } from '../signer/protocol.ts'
import { SigningProcess } from '../signer/signingProcess.ts'
import { AutoLock, type AutoLockOptions } from './autoLock.ts'
import { backupSaltBytes, writeBackup } from './backup.ts'
import { replaceFile } from './files.ts'
import {
  associatedOf,
  decodeHeader,
  encodeHeader,
  headerFor,
  newestVersion,
  passwordKeyOf,
  proofOf,
  type VaultHeader,
} from './header.ts'
import type { HomeLock } from './homeLock.ts'
import { firstVersionLogId, upgradeHome } from './oldHome.ts'
import { assertPassword } from './password.ts'
import { createPublicRecords } from './publicRecords.ts'
import { RecordStore } from './recordStore.ts'
import { Throttle } from './throttle.ts'
import { budgetPlace, recordsPlace, type VaultFiles } from './vaultFiles.ts'

export interface LocalVaultOptions {
  readonly files: VaultFiles
  readonly lock: HomeLock
  readonly clock: VaultClock
  readonly hasher: PasswordHasher
  readonly autoLock: AutoLockOptions
  readonly logLimits?: AuditLimits
}

const seedId = 'seed'
const keyringId = 'keyring'
/** How far the log had come, kept with what an older copy of the log and its head does not bring along. */
const logMarkId = 'log-mark'

/** {@link Vault} in a folder of this machine. The master key is in the signing process; here are the host's keys only. */
export class LocalVault implements Vault {
  readonly #files: VaultFiles
  readonly #clock: VaultClock
  readonly #homeLock: HomeLock
  readonly #hasher: PasswordHasher
  readonly #throttle: Throttle
  readonly #autoLock: AutoLock
  readonly #listeners = new Set<(reason: LockReason) => void>()
  #header: VaultHeader
  #isUnlocked = false
  #lockReason: LockReason | undefined
  /** Unlocking, locking and everything that asks for the password happen one after the other. */
  #turn: Promise<unknown> = Promise.resolve()
  #isClosed = false

  readonly #store: RecordStore
  /** True while unlocking itself needs what is behind the lock. */
  #isOpening = false
  /** True from the first file that was opened to the last that was closed. */
  #isOpen = false

  readonly records: Records
  readonly keys: VaultKeyring
  readonly signer: ReturnType<typeof createSigner>
  readonly budget: JournaledBudget
  readonly audit: ChainedAuditLog

  constructor({ files, lock, clock, hasher, autoLock, logLimits }: LocalVaultOptions) {
    this.#files = files
    this.#clock = clock
    this.#homeLock = lock
    this.#hasher = hasher
    this.#header = decodeHeader(readFileSync(files.header))
    this.#throttle = new Throttle(files.throttle, clock)
    this.#autoLock = new AutoLock(clock, autoLock, (reason) => void this.lock(reason).catch(() => {}))
    const beforeUse = () => {
      if (!this.#isOpening) this.assertUnlocked()
    }
    this.#store = new RecordStore(clock, beforeUse)
    this.records = createPublicRecords(this.#store)
    this.budget = new JournaledBudget(clock, beforeUse)
    this.signer = createSigner({ beforeUse, lost: () => void this.lock('signer').catch(() => {}) })
    this.audit = ChainedAuditLog.open({
      folder: files.auditFolder,
      headFile: files.auditHead,
      clock,
      ...(logLimits !== undefined && { limits: logLimits }),
      remember: (mark) => void this.#store.note(logMarkId, mark).catch(() => {}),
    })
    this.keys = new VaultKeyring({
      beforeUse,
      publicKey: (keyId) => this.signer.publicKey(keyId),
      save: async (state) =>
        void (await this.#store.putJson('key', keyringId, { ...state, seedVersion: this.#seedVersion })),
    })
  }

  get vaultId(): string {
    return this.#header.vaultId
  }

  get state(): VaultState {
    const locked = !this.#isUnlocked || this.#autoLock.reason() !== undefined
    return {
      vaultId: this.vaultId,
      locked,
      lockReason: locked ? this.#lockReason : undefined,
      locksAtMs: locked ? undefined : this.#autoLock.locksAtMs,
      idleLocksAtMs: locked ? undefined : this.#autoLock.idleLocksAtMs,
      retryAfterMs: this.#throttle.waitMs('socket'),
      pageRetryAfterMs: this.#throttle.waitMs('page'),
      auditDamage: this.audit.damage,
    }
  }

  assertUnlocked(): void {
    if (!this.#isUnlocked) throw new VaultError('VAULT_LOCKED')
    const reason = this.#autoLock.reason()
    if (reason !== undefined) {
      this.lock(reason).catch(() => {})
      throw new VaultError('VAULT_LOCKED')
    }
    this.#autoLock.use()
  }

  onLock(listener: (reason: LockReason) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  unlock(password: string, door: Door = 'socket'): Promise<VaultState> {
    return this.#inTurn(async () => {
      // A second unlock proves the password again and begins the time anew.
      if (this.#isUnlocked) {
        await this.#prove(password, door, (proof) => this.signer.process.check(proof))
        this.#autoLock.stop()
        this.#autoLock.start()
        return this.state
      }
      await this.#withProcess((process) =>
        this.#prove(
          password,
          door,
          (proof) => process.open(proof),
          (proof, keys) => this.#openWith(process, keys, proof),
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
    const wasUnlocked = this.#endUse(reason)
    return this.#inTurn(async () => {
      // An unlocking that was under way may have ended meanwhile.
      const isUnlocked = this.#endUse(reason)
      if (reason === 'signer' && (wasUnlocked || isUnlocked)) await this.#noteLoss()
      await this.#shut()
      if (!wasUnlocked && !isUnlocked) return
      for (const listener of this.#listeners) listener(reason)
    })
  }

  changePassword(current: string, next: string): Promise<void> {
    assertPassword(next)
    return this.#inTurn(async () => {
      const change = (process: SigningProcess) =>
        this.#prove(
          current,
          'socket',
          (proof) => process.check(proof),
          async (proof) => {
            const open = headerFor(this.#header)
            const passwordKey = await passwordKeyOf(open, next, this.#hasher)
            try {
              const wrappedKey = await process.wrap(proof, passwordKey, associatedOf(open))
              const header = { ...open, wrappedKey }
              replaceFile(this.#files.header, encodeHeader(header))
              this.#header = header
            } finally {
              passwordKey.fill(0)
            }
          },
        )
      if (this.#isUnlocked) return change(this.signer.process)
      // Locked, the process is there for this alone.
      await this.#withProcess(async (process) => {
        await change(process)
        await process.end()
      })
    })
  }

  exportMnemonic(password: string): Promise<string> {
    return this.#withPassword(password, async (proof) => {
      const words = await this.signer.process.exportWords(proof, this.#seedRecord())
      const mnemonic = words.toString('utf8')
      words.fill(0)
      return mnemonic
    })
  }

  importMnemonic(password: string, mnemonic: string): Promise<void> {
    return this.#withPassword(password, async (proof) => {
      const { process } = this.signer
      const old = this.#seedRecord()
      const id = `${seedId}-${old.version}`
      const as = { id, version: this.#store.nextVersion(id) }
      const next = { id: seedId, version: old.version + 1 }
      const words = Buffer.from(mnemonic, 'utf8')
      try {
        const made = await process.importSeed(proof, words, next.version, { record: old, as })
        const seed = { ...next, sealed: made.sealed }
        await this.#store.putSealed({ ...as, sealed: made.kept! }, seed)
        await process.load(seed)
      } finally {
        words.fill(0)
      }
      await this.#deriveAgain()
    })
  }

  importKey(
    password: string,
    family: KeyFamily,
    name: string,
    privateKey: Uint8Array,
    isTest = false,
  ): Promise<KeyInfo> {
    return this.#withPassword(password, async (proof) => {
      const keyId = importedKeyId(name)
      if (this.keys.list().some((known) => known.keyId === keyId))
        throw new VaultError('ALREADY_EXISTS', `There is a key ${keyId} already.`)
      const record = { id: keyId, version: this.#store.nextVersion(keyId) }
      const sealed = await this.signer.process.importKey(proof, record, family, privateKey)
      await this.#store.putSealed({ ...record, sealed })
      return await this.keys.add({ keyId, family, source: 'import', path: undefined, isTest })
    }).finally(() => privateKey.fill(0))
  }

  exportKey(password: string, keyId: string): Promise<Buffer> {
    return this.#withPassword(password, (proof) =>
      this.signer.process.exportKey(proof, this.keys.get(keyId).keyId),
    )
  }

  backup(file: string): Promise<void> {
    return this.#inTurn(async () => {
      this.assertUnlocked()
      const salt = randomBytes(backupSaltBytes)
      const key = await this.signer.process.fileKey('backup', salt)
      await writeBackup({
        file,
        header: this.#header,
        salt,
        key,
        records: this.#store.exportChanges(),
        budget: this.budget.exportChanges(),
        audit: this.audit,
      }).finally(() => key.fill(0))
    })
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.lock('closing')
    await this.audit.close()
    this.#homeLock.release()
  }

  /**
   * Takes both over: keeps the process when all of the vault opens, ends it when not, and zeroes the keys.
   * @param proof lets a vault of an older version be brought to the newest
   */
  async #openWith(process: SigningProcess, keys: HostKeys, proof?: Proof): Promise<void> {
    await this.#shut()
    this.#isOpen = true
    this.#isOpening = true
    try {
      const { vaultId } = this
      const files = this.#files
      if (this.#header.version !== newestVersion && proof !== undefined) {
        const old = { files, header: this.#header, clock: this.#clock, keys, proof }
        this.#header = await upgradeHome({ ...old, signer: process, lastLogged: this.audit.last })
      }
      this.#store.open(recordsPlace(files, vaultId, keys.recordsFile), keys.records)
      this.budget.open(budgetPlace(files, vaultId, keys.budgetFile))
      const marks = [logMarkId, firstVersionLogId].map((id) => this.#store.getJson<AuditMark>('key', id))
      this.audit.unlock(keys.audit, ...marks)
      for (const record of this.#keyRecords()) await process.load(record)
      this.signer.start(process)
      await this.#openKeys()
      const { damage } = this.audit
      if (damage !== undefined) {
        await this.audit.append({
          agent: 'vault',
          action: 'CONFIG',
          status: 'FAILED',
          note: `The log: ${damage}.`,
        })
      }
      await this.audit.closeRun()
      this.#autoLock.start()
      this.#isUnlocked = true
      this.#lockReason = undefined
    } catch (error) {
      await process.end()
      await this.#shut()
      throw error
    } finally {
      this.#isOpening = false
      zeroHostKeys(keys)
    }
  }

  async #openKeys(): Promise<void> {
    const saved = this.#store.getJson<KeyringState & { readonly seedVersion: number }>('key', keyringId)
    this.keys.load(saved)
    // A new seed that was taken in just before the process ended: its addresses are not known yet.
    if (saved !== undefined && saved.seedVersion !== this.#seedVersion) await this.#deriveAgain()
    await this.keys.derive('evm', 0)
    await this.keys.derive('solana', 0)
    // Never by itself in a vault that is older: its owner knows the addresses, and money for play lies there.
    if (saved === undefined) await this.keys.separateTests()
  }

  /** Whether it was in use. */
  #endUse(reason: LockReason): boolean {
    const wasUnlocked = this.#isUnlocked
    this.#isUnlocked = false
    this.#autoLock.stop()
    if (wasUnlocked) this.#lockReason = reason
    return wasUnlocked
  }

  async #noteLoss(): Promise<void> {
    const note = 'the signing process ended by itself: the vault is locked until its owner opens it again'
    // A log that takes no entry keeps no vault open.
    await this.audit.append({ agent: 'vault', action: 'LOCK', status: 'FAILED', note }).catch(() => {})
  }

  async #shut(): Promise<void> {
    if (!this.#isOpen) return
    this.keys.clear()
    await this.signer.stop()
    await this.audit.save()
    await this.#store.close()
    await this.budget.close()
    await this.audit.lock()
    this.#isOpen = false
  }

  /**
   * Asks for the password, throttled. `prove` shows the key that it gives to the signing process; what comes after that
   * does not count as an attempt.
   * @throws `BAD_PASSWORD`, `TOO_MANY_ATTEMPTS`
   */
  async #prove<P, T>(
    password: string,
    door: Door,
    prove: (proof: Proof) => Promise<P>,
    act?: (proof: Proof, proved: P) => Promise<T>,
  ): Promise<T | undefined> {
    if (this.#isClosed) throw new VaultError('VAULT_LOCKED', 'The vault was closed.')
    if (typeof password !== 'string')
      throw new VaultError('VALIDATION_ERROR', 'Expected the password as a text.')
    this.#throttle.begin(door)
    const passwordKey = await passwordKeyOf(this.#header, password, this.#hasher)
    const proof = proofOf(this.#header, passwordKey)
    try {
      const proved = await prove(proof).catch((error: unknown) => {
        if (isVaultError(error) && error.code === 'SIGNER_LOST') this.#throttle.takeBack(door)
        if (!isVaultError(error) || error.code !== 'BAD_PASSWORD') throw error
        const retryAfterSeconds = Math.ceil(this.#throttle.waitMs(door) / 1_000)
        throw new VaultError('BAD_PASSWORD', undefined, { retryAfterSeconds })
      })
      this.#throttle.succeed(door)
      return await act?.(proof, proved)
    } finally {
      passwordKey.fill(0)
    }
  }

  #withPassword<T>(password: string, act: (proof: Proof) => Promise<T>): Promise<T> {
    return this.#inTurn(async () => {
      this.assertUnlocked()
      const prove = (proof: Proof) => this.signer.process.check(proof)
      return (await this.#prove(password, 'socket', prove, act)) as T
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

  get #seedVersion(): number {
    return this.#store.info('key', seedId)?.version ?? 0
  }

  #seedRecord(): SealedRecord {
    const record = this.#store.sealed(seedId)
    if (record === undefined)
      throw new VaultError('VAULT_CORRUPT', 'The vault holds no seed. Restore the newest backup.')
    return record
  }

  /** Of every key that signs, as they are sealed. */
  #keyRecords(): readonly SealedRecord[] {
    const imported = this.#store.list('key').filter(({ id }) => id.startsWith('import:'))
    return [this.#seedRecord(), ...imported.map(({ id }) => this.#store.sealed(id)!)]
  }

  /** The same accounts under another seed; imported keys stay as they are. */
  async #deriveAgain(): Promise<void> {
    const known = this.keys.list()
    this.keys.load({ keys: known.filter((key) => key.source === 'import'), ...this.keys.defaults })
    for (const { keyId } of known) {
      const derived = parseDerivedKeyId(keyId)
      if (derived !== undefined) await this.keys.derive(derived.family, derived.index, derived.isTest)
    }
  }
}
