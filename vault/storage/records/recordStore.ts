import type { Clock } from '../../../core/ports/clock.ts'
import { parseScope } from '../../agents/grant.ts'
import { openRecord, sealRecord } from '../../disk/aead.ts'
import type { RowReader, SealedRows } from '../../disk/sealedRows.ts'
import type { VaultDatabase } from '../../disk/vaultDatabase.ts'
import { VaultError } from '../../errors/error.ts'
import {
  type Collection,
  collections,
  type PutOptions,
  type RecordInfo,
  type Records,
} from '../../ports/records.ts'
import type { SealedRecord } from '../../signer/custodian.ts'

const LARGEST_VALUE_BYTES = 256 * 1024
const LONGEST_ID_BYTES = 512

/**
 * Adds the vault's own collection `key`. It has the seed and imported keys, which only the signing process seals and opens, and
 * the keyring, which names them.
 */
export type StoredCollection = Collection | 'key'

interface Opened {
  readonly rows: SealedRows
  readonly recordKey: Buffer
  readonly vaultId: string
}

interface DecryptedRecord extends StoredRecord {
  readonly row: number
}

/** {@link Records} over sealed rows. Memory has only the ciphertexts, never plaintext. */
export class RecordStore implements Records {
  readonly #clock: Clock
  readonly #beforeUse: () => void
  readonly #database: VaultDatabase
  readonly #records = new Map<string, DecryptedRecord>()
  #lastRow = 0
  #opened: Opened | undefined

  /** @param beforeUse throws if the vault is locked or has to lock. Each method calls it first */
  constructor(database: VaultDatabase, clock: Clock, beforeUse: () => void) {
    this.#database = database
    this.#clock = clock
    this.#beforeUse = beforeUse
  }

  readonly reader: RowReader = {
    reset: () => {
      this.#records.clear()
      this.#lastRow = 0
    },
    replay: (row, payload) => {
      const { scope, record } = decodeRecord(payload)
      this.#records.set(scope, { ...record, row })
      this.#lastRow = row
    },
  }

  /** @param recordKey wraps the data keys. The store keeps a copy */
  open(rows: SealedRows, vaultId: string, recordKey: Uint8Array): void {
    this.#opened = { rows, recordKey: Buffer.from(recordKey), vaultId }
  }

  /** Zeroes the key and drops the ciphertexts. */
  close(): void {
    this.#opened?.recordKey.fill(0)
    this.#opened = undefined
    this.reader.reset()
  }

  get(collection: StoredCollection, id: string): Buffer | undefined {
    const { recordKey, vaultId } = this.#use()
    const scope = scopeOf(collection, id)
    const record = this.#records.get(scope)
    if (record === undefined) return undefined
    const value = openRecord(recordKey, { vaultId, scope, version: record.version }, record.sealed)
    if (value === undefined) {
      throw new VaultError(
        'VAULT_CORRUPT',
        `The record ${scope} cannot be decrypted. Restore the newest backup.`,
      )
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
    const { recordKey, vaultId } = this.#use()
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
    await this.#keep(scope, record)
    return { ...infoOf(collection, id, record), created: before === 0 }
  }

  putJson(collection: StoredCollection, id: string, value: unknown, options: PutOptions = {}) {
    return this.put(collection, id, JSON.stringify(value), options)
  }

  async delete(collection: StoredCollection, id: string): Promise<boolean> {
    const { rows } = this.#use()
    const scope = scopeOf(collection, id)
    const record = this.#records.get(scope)
    if (record === undefined) return false
    this.#records.delete(scope)
    await rows.remove('records', record.row)
    this.#database.checkpoint()
    return true
  }

  /** A key record in sealed form. Undefined when it does not exist. */
  sealed(id: string): SealedRecord | undefined {
    this.#use()
    const record = this.#records.get(scopeOf('key', id))
    return record && { id, version: record.version, sealed: record.sealed }
  }

  /** The version with which the next write of a key record has to be sealed. */
  nextVersion(id: string): number {
    return (this.sealed(id)?.version ?? 0) + 1
  }

  /** Stores key records as the signing process sealed them, all or none. */
  async putSealed(...records: readonly SealedRecord[]): Promise<void> {
    this.#use()
    const written = records.map(({ id, version, sealed }) => {
      if (version !== this.nextVersion(id))
        throw new VaultError('VERSION_CONFLICT', `Expected the record ${id} not to change meanwhile.`)
      const record = { version, updatedAtMs: this.#clock.now(), sealed: Buffer.from(sealed) }
      return this.#keep(scopeOf('key', id), record)
    })
    await Promise.all(written)
  }

  #use(): Opened {
    this.#beforeUse()
    if (this.#opened === undefined) throw new VaultError('VAULT_LOCKED')
    return this.#opened
  }

  #keep(scope: string, record: StoredRecord): Promise<void> {
    const row = this.#records.get(scope)?.row ?? ++this.#lastRow
    this.#records.set(scope, { ...record, row })
    return this.#opened!.rows.put('records', row, encodeRecord(scope, record))
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

const known: ReadonlySet<string> = new Set(collections)

/** The records that the host can access. A request cannot name a key record. */
export function createPublicRecords(store: RecordStore): Records {
  const checked = (collection: Collection): Collection => {
    if (known.has(collection)) return collection
    throw new VaultError('VALIDATION_ERROR', `Expected one of these collections: ${collections.join(', ')}.`)
  }
  return Object.freeze<Records>({
    get: (collection, id) => store.get(checked(collection), id),
    getText: (collection, id) => store.getText(checked(collection), id),
    getJson: (collection, id) => store.getJson(checked(collection), id),
    info: (collection, id) => store.info(checked(collection), id),
    list: (collection) => store.list(checked(collection)),
    put: async (collection, id, value, options) => store.put(checked(collection), id, value, options),
    putJson: async (collection, id, value, options) => store.putJson(checked(collection), id, value, options),
    delete: async (collection, id) => store.delete(checked(collection), id),
  })
}

/** A stored record: its ciphertext and public fields. */
interface StoredRecord {
  readonly version: number
  readonly updatedAtMs: number
  readonly sealed: Buffer
}

const fixedBytes = 2 + 4 + 8

/** Encodes a record as the payload of its row. The row is sealed too, because record names are private. */
function encodeRecord(scope: string, record: StoredRecord): Buffer {
  const name = Buffer.from(scope, 'utf8')
  const head = Buffer.alloc(fixedBytes)
  head.writeUInt16BE(name.length)
  head.writeUInt32BE(record.version, 2)
  head.writeDoubleBE(record.updatedAtMs, 6)
  return Buffer.concat([head, name, record.sealed])
}

/** Decodes a payload. The result is a copy, because the payload is zeroed. */
function decodeRecord(payload: Buffer): { readonly scope: string; readonly record: StoredRecord } {
  const nameEnd = fixedBytes + payload.readUInt16BE()
  const record = {
    version: payload.readUInt32BE(2),
    updatedAtMs: payload.readDoubleBE(6),
    sealed: Buffer.from(payload.subarray(nameEnd)),
  }
  return { scope: payload.toString('utf8', fixedBytes, nameEnd), record }
}
