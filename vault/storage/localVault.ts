import { readFileSync } from 'node:fs'
import { ChainedAuditLog } from '../audit/chainedAuditLog.ts'
import type { AuditLimits } from '../audit/dropOld.ts'
import { JournaledBudget } from '../budget/journaledBudget.ts'
import { VaultError } from '../errors/error.ts'
import { importedKeyId, parseDerivedKeyId } from '../keys/keyId.ts'
import { type KeyringState, VaultKeyring } from '../keys/vaultKeyring.ts'
import type { AuditMark } from '../ports/audit.ts'
import type { VaultClock } from '../ports/clock.ts'
import type { KeyFamily, KeyInfo } from '../ports/keyring.ts'
import type { PasswordHasher } from '../ports/passwordHasher.ts'
import type { Records } from '../ports/records.ts'
import type { Door, LockReason, Vault, VaultState } from '../ports/vault.ts'
import { createSigner } from '../signer/createSigner.ts'
import type { KeyMaterial } from '../signer/signingProcess.ts'
import { AutoLock, type AutoLockOptions } from './autoLock.ts'
import { writeBackup } from './backup.ts'
import { deriveKey } from './deriveKey.ts'
import { replaceFile } from './files.ts'
import { decodeHeader, encodeHeader, unwrapMasterKey, type VaultHeader, wrapMasterKey } from './header.ts'
import type { HomeLock } from './homeLock.ts'
import { assertPassword } from './password.ts'
import { createPublicRecords } from './publicRecords.ts'
import { RecordStore } from './recordStore.ts'
import { encodeSeed, mnemonicOf, seedOf } from './seedRecord.ts'
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
const noSalt = new Uint8Array(0)

/** {@link Vault} in a folder of this machine. */
export class LocalVault implements Vault {
  readonly #files: VaultFiles
  readonly #homeLock: HomeLock
  readonly #hasher: PasswordHasher
  readonly #throttle: Throttle
  readonly #autoLock: AutoLock
  readonly #listeners = new Set<(reason: LockReason) => void>()
  #header: VaultHeader
  #masterKey: Buffer | undefined
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
    this.signer = createSigner(beforeUse)
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
    const locked = this.#masterKey === undefined || this.#autoLock.reason() !== undefined
    return {
      vaultId: this.vaultId,
      locked,
      locksAtMs: locked ? undefined : this.#autoLock.locksAtMs,
      idleLocksAtMs: locked ? undefined : this.#autoLock.idleLocksAtMs,
      retryAfterMs: this.#throttle.waitMs('socket'),
      pageRetryAfterMs: this.#throttle.waitMs('page'),
      auditDamage: this.audit.damage,
    }
  }

  assertUnlocked(): void {
    if (this.#masterKey === undefined) throw new VaultError('VAULT_LOCKED')
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
      const masterKey = await this.#openMasterKey(password, door)
      // A second unlock proves the password again and begins the time anew.
      if (this.#masterKey !== undefined) {
        masterKey.fill(0)
        this.#autoLock.stop()
        this.#autoLock.start()
      } else {
        await this.#openWith(masterKey)
      }
      return this.state
    })
  }

  /** Opens a vault that was just made or restored, without its password. Takes the key over. */
  openNew(masterKey: Buffer): Promise<void> {
    return this.#inTurn(() => this.#openWith(masterKey))
  }

  lock(reason: LockReason = 'owner'): Promise<void> {
    // At once, and not in turn: from here on nobody gets anything.
    const wasUnlocked = this.#dropMasterKey()
    return this.#inTurn(async () => {
      // An unlocking that was under way may have ended meanwhile.
      const isUnlocked = this.#dropMasterKey()
      await this.#shut()
      if (!wasUnlocked && !isUnlocked) return
      for (const listener of this.#listeners) listener(reason)
    })
  }

  changePassword(current: string, next: string): Promise<void> {
    assertPassword(next)
    return this.#inTurn(async () => {
      const masterKey = await this.#openMasterKey(current)
      try {
        const header = await wrapMasterKey(this.#header, masterKey, next, this.#hasher)
        replaceFile(this.#files.header, encodeHeader(header))
        this.#header = header
      } finally {
        masterKey.fill(0)
      }
    })
  }

  exportMnemonic(password: string): Promise<string> {
    return this.#withPassword(password, async () => {
      const record = this.#seedRecord()
      try {
        return mnemonicOf(record)
      } finally {
        record.fill(0)
      }
    })
  }

  importMnemonic(password: string, mnemonic: string): Promise<void> {
    return this.#withPassword(password, async () => {
      const record = await encodeSeed(mnemonic)
      const old = this.#seedRecord()
      await this.#store.put('key', `${seedId}-${this.#seedVersion}`, old)
      await this.#store.put('key', seedId, record)
      old.fill(0)
      record.fill(0)
      await this.signer.stop()
      this.signer.start(() => this.#material())
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
    return this.#withPassword(password, async () => {
      const keyId = importedKeyId(name)
      const key = await readPrivateKey(family, privateKey)
      try {
        const isThere = this.keys.list().some((known) => known.keyId === keyId)
        if (isThere)
          throw new VaultError('ALREADY_EXISTS', `There is a key ${keyId} already. Choose another name.`)
        await this.#store.put('key', keyId, Buffer.concat([Uint8Array.of(family === 'evm' ? 0 : 1), key]))
        this.signer.addImported(keyId, family, key)
        return await this.keys.add({ keyId, family, source: 'import', path: undefined, isTest })
      } finally {
        key.fill(0)
        privateKey.fill(0)
      }
    })
  }

  exportKey(password: string, keyId: string): Promise<Buffer> {
    return this.#withPassword(password, async () => {
      const { family, path } = this.keys.get(keyId)
      if (path === undefined) {
        const record = this.#store.get('key', keyId)
        if (record === undefined) throw new VaultError('KEY_UNKNOWN')
        const key = Buffer.from(record.subarray(1))
        record.fill(0)
        return key
      }
      const { derivePrivateKey } = await import('../keys/derivation.ts')
      const record = this.#seedRecord()
      const seed = seedOf(record)
      record.fill(0)
      try {
        return derivePrivateKey(family, seed, path)
      } finally {
        seed.fill(0)
      }
    })
  }

  backup(file: string): Promise<void> {
    return this.#inTurn(async () => {
      this.assertUnlocked()
      await writeBackup({
        file,
        header: this.#header,
        masterKey: this.#masterKey!,
        records: this.#store.exportChanges(),
        budget: this.budget.exportChanges(),
        audit: this.audit,
      })
    })
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.lock('closing')
    await this.audit.close()
    this.#homeLock.release()
  }

  /** Takes the key over: keeps it when all of the vault opens, zeroes it when not. */
  async #openWith(masterKey: Buffer): Promise<void> {
    await this.#shut()
    const auditKey = deriveKey(masterKey, 'audit', this.vaultId, noSalt)
    this.#isOpen = true
    this.#isOpening = true
    try {
      this.#store.open(recordsPlace(this.#files, this.vaultId, masterKey))
      this.budget.open(budgetPlace(this.#files, this.vaultId, masterKey))
      this.audit.unlock(auditKey, this.#store.getJson<AuditMark>('key', logMarkId))
      this.signer.start(() => this.#material())
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
      this.#masterKey = masterKey
    } catch (error) {
      masterKey.fill(0)
      await this.#shut()
      throw error
    } finally {
      this.#isOpening = false
      auditKey.fill(0)
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

  /** Whether there was one. */
  #dropMasterKey(): boolean {
    const masterKey = this.#masterKey
    this.#masterKey = undefined
    this.#autoLock.stop()
    masterKey?.fill(0)
    return masterKey !== undefined
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

  /** The master key in a buffer of its own, zeroed by the caller. @throws `BAD_PASSWORD`, `TOO_MANY_ATTEMPTS` */
  async #openMasterKey(password: string, door: Door = 'socket'): Promise<Buffer> {
    if (this.#isClosed) throw new VaultError('VAULT_LOCKED', 'The vault was closed.')
    if (typeof password !== 'string')
      throw new VaultError('VALIDATION_ERROR', 'Expected the password as a text.')
    this.#throttle.begin(door)
    const masterKey = await unwrapMasterKey(this.#header, password, this.#hasher)
    if (masterKey === undefined) {
      const retryAfterSeconds = Math.ceil(this.#throttle.waitMs(door) / 1_000)
      throw new VaultError('BAD_PASSWORD', undefined, { retryAfterSeconds })
    }
    this.#throttle.succeed(door)
    return masterKey
  }

  #withPassword<T>(password: string, act: () => Promise<T>): Promise<T> {
    return this.#inTurn(async () => {
      this.assertUnlocked()
      const masterKey = await this.#openMasterKey(password)
      masterKey.fill(0)
      return act()
    })
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(act)
    this.#turn = turn.catch(() => {})
    return turn
  }

  get #seedVersion(): number {
    return this.#store.info('key', seedId)?.version ?? 0
  }

  #seedRecord(): Buffer {
    const record = this.#store.get('key', seedId)
    if (record === undefined)
      throw new VaultError('VAULT_CORRUPT', 'The vault holds no seed. Restore the newest backup.')
    return record
  }

  /** For a child that starts now, which zeroes it. */
  #material(): KeyMaterial {
    const record = this.#seedRecord()
    const seed = seedOf(record)
    record.fill(0)
    const imported = this.#store
      .list('key')
      .filter(({ id }) => id.startsWith('import:'))
      .map(({ id }) => {
        const stored = this.#store.get('key', id)!
        const family: KeyFamily = stored[0] === 0 ? 'evm' : 'solana'
        const privateKey = Buffer.from(stored.subarray(1))
        stored.fill(0)
        return { keyId: id, family, privateKey }
      })
    return { seed, imported }
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

/** 32 bytes that are a key of the family; a Solana key may bring its public half along, which must fit. */
async function readPrivateKey(family: KeyFamily, bytes: Uint8Array): Promise<Buffer> {
  const { checkPrivateKey } = await import('../keys/checkPrivateKey.ts')
  return checkPrivateKey(family, bytes)
}
