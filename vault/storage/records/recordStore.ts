import type { Clock } from '../../../core/ports/clock.ts'
import { VaultError } from '../../errors/error.ts'
import type { Collection, PutOptions, RecordInfo, Records } from '../../ports/records.ts'
import type { SealedRecord } from '../../signer/custodian.ts'
import { SealedLog, type SealedLogOptions, type SealedLogPlace } from '../disk/sealedLog.ts'
import { openRecord, sealRecord } from './envelope.ts'
import { decodeChange, encodeDelete, encodePut, type StoredRecord } from './recordChange.ts'
import { parseScope } from './scopes.ts'

const LARGEST_VALUE_BYTES = 256 * 1024
const LONGEST_ID_BYTES = 512

/**
 * `key` holds the seed and imported keys, which the signing process alone seals and opens, and the keyring, which names them;
 * only the vault itself names the collection.
 */
export type StoredCollection = Collection | 'key'

interface Opened {
  readonly log: SealedLog
  readonly recordKey: Buffer
  readonly vaultId: string
}

/** {@link Records} over one sealed log. Ciphertexts are kept in memory, plain values never. */
export class RecordStore implements Records {
  readonly #clock: Clock
  readonly #beforeUse: () => void
  readonly #records = new Map<string, StoredRecord>()
  #opened: Opened | undefined

  /** @param beforeUse throws when the vault is locked or should be; called by each method. */
  constructor(clock: Clock, beforeUse: () => void) {
    this.#clock = clock
    this.#beforeUse = beforeUse
  }

  /** Reads the log in. The key, which wraps data keys, is copied. @throws `VAULT_CORRUPT` */
  open(place: SealedLogPlace, recordKey: Uint8Array): void {
    this.#attach(place, recordKey, (options) => SealedLog.open(options))
  }

  /** Writes a new log from changes as {@link exportChanges} gives them; none for a new vault. */
  create(place: SealedLogPlace, recordKey: Uint8Array, changes: readonly Buffer[] = []): void {
    for (const change of changes) this.#replay(change)
    this.#attach(place, recordKey, (options) => SealedLog.create(options))
  }

  /** Every record as it is stored, in buffers of their own. */
  exportChanges(): Buffer[] {
    return [...this.#records].map(([scope, record]) => encodePut(scope, record))
  }

  /** Flushes, zeroes the key and forgets the ciphertexts. */
  async close(): Promise<void> {
    const opened = this.#opened
    this.#opened = undefined
    this.#records.clear()
    opened?.recordKey.fill(0)
    await opened?.log.close()
    // A last write that failed has read the file back.
    this.#records.clear()
  }

  get(collection: StoredCollection, id: string): Buffer | undefined {
    const { recordKey, vaultId } = this.#use()
    const scope = scopeOf(collection, id)
    const record = this.#records.get(scope)
    if (record === undefined) return undefined
    const value = openRecord(recordKey, { vaultId, scope, version: record.version }, record.sealed)
    if (value === undefined) {
      throw new VaultError('VAULT_CORRUPT', `The record ${scope} does not open. Restore the newest backup.`)
    }
    return value
  }

  getText(collection: StoredCollection, id: string): string | undefined {
    const value = this.get(collection, id)
    const text = value?.toString('utf8')
    value?.fill(0)
    return text
  }

  getJson<T>(collection: StoredCollection, id: string): T | undefined {
    const text = this.getText(collection, id)
    return text === undefined ? undefined : (JSON.parse(text) as T)
  }

  info(collection: StoredCollection, id: string): RecordInfo | undefined {
    this.#use()
    const record = this.#records.get(scopeOf(collection, id))
    return record === undefined ? undefined : infoOf(collection, id, record)
  }

  list(collection: StoredCollection): readonly RecordInfo[] {
    this.#use()
    const prefix = `${collection}/`
    const found: RecordInfo[] = []
    for (const [scope, record] of this.#records) {
      if (scope.startsWith(prefix)) found.push(infoOf(collection, scope.slice(prefix.length), record))
    }
    return found.sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  async put(collection: StoredCollection, id: string, value: Uint8Array | string, options: PutOptions = {}) {
    const { recordKey, vaultId, log } = this.#use()
    const scope = scopeOf(collection, id)
    const plain = typeof value === 'string' ? Buffer.from(value, 'utf8') : value
    if (plain.length > LARGEST_VALUE_BYTES) {
      throw new VaultError(
        'VALIDATION_ERROR',
        `Expected a value of at most ${LARGEST_VALUE_BYTES} bytes for ${scope}, got ${plain.length}.`,
      )
    }
    const before = this.#records.get(scope)?.version ?? 0
    if (options.ifVersion !== undefined && options.ifVersion !== before) {
      throw new VaultError(
        'VERSION_CONFLICT',
        `Expected ${scope} at version ${options.ifVersion}, found ${before}.`,
      )
    }
    const version = before + 1
    const sealed = sealRecord(recordKey, { vaultId, scope, version }, plain)
    if (plain !== value) plain.fill(0)
    const record = { version, updatedAtMs: this.#clock.now(), sealed }
    this.#records.set(scope, record)
    await log.append(encodePut(scope, record))
    return { ...infoOf(collection, id, record), created: before === 0 }
  }

  putJson(collection: StoredCollection, id: string, value: unknown, options: PutOptions = {}) {
    return this.put(collection, id, JSON.stringify(value), options)
  }

  /** The file of the records while it is open. */
  get log(): SealedLog | undefined {
    return this.#opened?.log
  }

  async delete(collection: StoredCollection, id: string): Promise<boolean> {
    const { log } = this.#use()
    const scope = scopeOf(collection, id)
    if (!this.#records.delete(scope)) return false
    await log.appendAndCompact(encodeDelete(scope))
    return true
  }

  /** A record of keys as it is sealed; undefined when there is none. */
  sealed(id: string): SealedRecord | undefined {
    this.#use()
    const record = this.#records.get(scopeOf('key', id))
    return record && { id, version: record.version, sealed: record.sealed }
  }

  /** The version that a record of keys would have next: what it is sealed for. */
  nextVersion(id: string): number {
    return (this.sealed(id)?.version ?? 0) + 1
  }

  /** Keeps records of keys as the signing process sealed them; all of them, or after a crash none that follows a missing one. */
  async putSealed(...records: readonly SealedRecord[]): Promise<void> {
    const { log } = this.#use()
    const written = records.map(({ id, version, sealed }) => {
      if (version !== this.nextVersion(id))
        throw new VaultError('VERSION_CONFLICT', `Expected the record ${id} not to change meanwhile.`)
      const record = { version, updatedAtMs: this.#clock.now(), sealed: Buffer.from(sealed) }
      this.#records.set(scopeOf('key', id), record)
      return log.append(encodePut(scopeOf('key', id), record))
    })
    await Promise.all(written)
  }

  #use(): Opened {
    this.#beforeUse()
    if (this.#opened === undefined) throw new VaultError('VAULT_LOCKED')
    return this.#opened
  }

  #attach(place: SealedLogPlace, recordKey: Uint8Array, open: (options: SealedLogOptions) => SealedLog) {
    const log = open({
      ...place,
      state: {
        snapshot: () => this.exportChanges(),
        reset: () => this.#records.clear(),
        replay: (payload) => this.#replay(payload),
      },
    })
    this.#opened = { log, recordKey: Buffer.from(recordKey), vaultId: place.vaultId }
  }

  #replay(payload: Buffer): void {
    const { scope, record } = decodeChange(payload)
    if (record === undefined) this.#records.delete(scope)
    else this.#records.set(scope, record)
  }
}

function scopeOf(collection: StoredCollection, id: string): string {
  if (collection === 'value' || collection === 'credential') parseScope(id)
  if (id === '' || Buffer.byteLength(id) > LONGEST_ID_BYTES) {
    throw new VaultError(
      'VALIDATION_ERROR',
      `Expected an id of 1 to ${LONGEST_ID_BYTES} bytes, got ${id.length}.`,
    )
  }
  return `${collection}/${id}`
}

function infoOf(collection: StoredCollection, id: string, record: StoredRecord): RecordInfo {
  const updatedAt = new Date(record.updatedAtMs).toISOString()
  return { collection: collection as Collection, id, version: record.version, updatedAt }
}
