import { createHmac, randomBytes } from 'node:crypto'
import type { AuditMark } from '../ports/audit.ts'
import { deriveKey, lengthPrefixed, nonceBytes, seal, unseal } from './aead.ts'
import { damaged } from './databaseFile.ts'
import type { VaultDatabase } from './vaultDatabase.ts'

const saltBytes = 16
const sumModulus = 1n << 256n

export const rowTables = ['records', 'budget'] as const
export type RowTable = (typeof rowTables)[number]

/** In-memory state that is rebuilt from stored rows. */
export interface RowReader {
  /** Clears the state. The rows follow. */
  reset(): void
  /**
   * Applies one row. Rows come in the order of their ids. The payload is zeroed after the call, so the reader must copy what it
   * needs.
   */
  replay(id: number, payload: Buffer): void
}

/**
 * The progress of the vault. Every change writes it in the same transaction, sealed with a key that only an unlocked vault has.
 */
export interface VaultState {
  /**
   * Number of transactions that were made while unlocked. Other files store the last value that they saw. A smaller value here
   * shows that the database was replaced by an older one.
   */
  counter: number
  /** Number of password changes. It shows whether `vault.json` is older than the database. */
  passwords: number
  /** The counter in the newest head. */
  head: number
  /** The last entry of the log, and the last dropped entry. */
  log: AuditMark & { readonly cut?: AuditMark | undefined }
  /** Number of the log entry up to which damage was reported to the owner. Verification keeps reporting that damage. */
  told: number
}

export interface RowsPlace {
  readonly vaultId: string
  /** Random id of the database since its creation. A restored vault has another lineage. */
  readonly lineage: string
  /** The sealing key. The rows keep a copy. */
  readonly key: Uint8Array
}

interface Opened {
  readonly place: RowsPlace & { readonly key: Buffer }
  readonly sumKey: Buffer
  /** Random value of this opening. It makes the sealing key unique, so a message counter can be the nonce. */
  readonly salt: Buffer
  sealed: bigint
  readonly keys: Map<string, Buffer>
}

/**
 * Records and the budget journal as sealed rows. A row that was changed, or moved to another row's position, cannot be opened.
 * A row that was restored, removed or added can be opened, but then the sum of all rows' keyed codes differs from the sum in
 * the sealed state.
 */
export class SealedRows {
  readonly #database: VaultDatabase
  readonly #readers: Readonly<Record<RowTable, RowReader>>
  /** The keyed code of each row. */
  readonly #codes: Readonly<Record<RowTable, Map<number, bigint>>> = { records: new Map(), budget: new Map() }
  #sum = 0n
  #opened: Opened | undefined
  #state: VaultState = startState()

  constructor(database: VaultDatabase, readers: Readonly<Record<RowTable, RowReader>>) {
    this.#database = database
    this.#readers = readers
    database.join({ sealing: () => this.#writeState(), failed: () => this.#load() })
  }

  /** Starts the rows of a new vault. */
  create(place: RowsPlace): void {
    this.#open(place)
    this.#state = startState()
  }

  /** Reads all rows. @throws `VAULT_CORRUPT` */
  open(place: RowsPlace): void {
    this.#open(place)
    try {
      this.#load()
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** Gives a restored database a lineage of its own. The next change writes it. */
  rename(lineage: string): void {
    const { place, ...more } = this.#opened!
    this.#opened = { ...more, place: { ...place, lineage } }
    this.#state = { ...this.#state, passwords: 0, head: 0 }
  }

  get isOpen(): boolean {
    return this.#opened !== undefined
  }

  /** The state. The next change of the database writes changes of the state. */
  get state(): VaultState {
    return this.#state
  }

  get lineage(): string {
    return this.#opened!.place.lineage
  }

  /**
   * Replaces the row with this id. Fulfilled when the row is on disk. The caller changes the in-memory state in the same turn.
   */
  put(table: RowTable, id: number, payload: Uint8Array, canWait = false): Promise<void> {
    const sealed = this.#seal(payload, nameOf(table, id))
    return this.#database.change(() => this.#insert(table, id, sealed), canWait)
  }

  remove(table: RowTable, id: number): Promise<void> {
    return this.#database.change(() => this.#delete(table, id))
  }

  /** Replaces all rows of the table. The new rows have ids from 1 on. */
  replaceAll(table: RowTable, payloads: readonly Uint8Array[]): Promise<void> {
    const rows = payloads.map((payload, n) => [n + 1, this.#seal(payload, nameOf(table, n + 1))] as const)
    return this.#database.change(() => {
      for (const id of [...this.#codes[table].keys()]) this.#delete(table, id)
      for (const [id, sealed] of rows) this.#insert(table, id, sealed)
    })
  }

  /** Zeroes the keys and clears the rows. */
  close(): void {
    for (const table of rowTables) this.#codes[table].clear()
    const opened = this.#opened
    this.#opened = undefined
    if (opened === undefined) return
    for (const key of [opened.place.key, opened.sumKey, ...opened.keys.values()]) key.fill(0)
  }

  #open({ vaultId, lineage, key }: RowsPlace): void {
    this.#opened = {
      place: { vaultId, lineage, key: Buffer.from(key) },
      sumKey: deriveKey(key, 'sum of rows', vaultId, new Uint8Array(0)),
      salt: randomBytes(saltBytes),
      sealed: 0n,
      keys: new Map(),
    }
    this.#sum = 0n
  }

  #load(): void {
    if (this.#opened === undefined) return
    const { file } = this.#database
    const state = this.#readState()
    this.#sum = 0n
    for (const table of rowTables) {
      this.#codes[table].clear()
      this.#readers[table].reset()
      const select = this.#database.prepare(`SELECT id, sealed FROM ${table} ORDER BY id`)
      const rows = this.#database.read(() => select.all()) as { id: number; sealed: Uint8Array }[]
      for (const { id, sealed } of rows) {
        const payload = this.#unseal(sealed, nameOf(table, id))
        if (payload === undefined) throw damaged(file, `row ${id} of ${table} was changed`)
        this.#count(table, id, this.#codeOf(table, id, sealed))
        this.#readers[table].replay(id, payload)
        payload.fill(0)
      }
    }
    if (this.#sum !== BigInt(`0x${state.sum}`))
      throw damaged(
        file,
        'some of its records or its budget are missing, older than the rest, or were put back',
      )
    this.#state = state
  }

  #readState(): VaultState & { readonly sum: string } {
    const { file } = this.#database
    const { place } = this.#opened!
    const select = this.#database.prepare('SELECT lineage, sealed FROM state')
    const row = this.#database.read(() => select.get()) as { lineage: string; sealed: Uint8Array } | undefined
    if (row !== undefined && row.lineage !== place.lineage)
      throw damaged(
        file,
        'it and vault.json do not belong together, because one of the two is from before the vault was restored',
      )
    const payload = row && this.#unseal(row.sealed, stateName(place.lineage))
    if (payload === undefined) throw damaged(file, 'its state was changed')
    return JSON.parse(payload.toString('utf8'))
  }

  #writeState(): void {
    if (this.#opened === undefined) return
    const { lineage } = this.#opened.place
    this.#state = { ...this.#state, counter: this.#state.counter + 1 }
    const payload = Buffer.from(JSON.stringify({ ...this.#state, sum: this.#sum.toString(16) }))
    this.#database
      .prepare('INSERT OR REPLACE INTO state (id, lineage, sealed) VALUES (1, ?, ?)')
      .run(lineage, this.#seal(payload, stateName(lineage)))
  }

  #insert(table: RowTable, id: number, sealed: Buffer): void {
    this.#database.prepare(`INSERT OR REPLACE INTO ${table} (id, sealed) VALUES (?, ?)`).run(id, sealed)
    this.#count(table, id, this.#codeOf(table, id, sealed))
  }

  #delete(table: RowTable, id: number): void {
    this.#database.prepare(`DELETE FROM ${table} WHERE id = ?`).run(id)
    this.#count(table, id, undefined)
  }

  #count(table: RowTable, id: number, code: bigint | undefined): void {
    const codes = this.#codes[table]
    const change = (code ?? 0n) - (codes.get(id) ?? 0n)
    this.#sum = (this.#sum + change + sumModulus) % sumModulus
    if (code === undefined) codes.delete(id)
    else codes.set(id, code)
  }

  #codeOf(table: RowTable, id: number, sealed: Uint8Array): bigint {
    const code = createHmac('sha256', this.#opened!.sumKey).update(nameOf(table, id)).update(sealed)
    return BigInt(`0x${code.digest('hex')}`)
  }

  #seal(payload: Uint8Array, name: Buffer): Buffer {
    const opened = this.#opened!
    const nonce = Buffer.alloc(nonceBytes)
    nonce.writeBigUInt64BE(++opened.sealed)
    return Buffer.concat([opened.salt, seal(this.#keyFor(opened.salt), payload, name, nonce)])
  }

  /** @param sealed can be any value if a page of the database was wiped */
  #unseal(sealed: unknown, name: Buffer): Buffer | undefined {
    if (!(sealed instanceof Uint8Array)) return undefined
    const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength)
    return unseal(this.#keyFor(bytes.subarray(0, saltBytes)), bytes.subarray(saltBytes), name)
  }

  #keyFor(salt: Buffer): Buffer {
    const { place, keys } = this.#opened!
    const name = salt.toString('latin1')
    const known = keys.get(name)
    if (known !== undefined) return known
    const made = deriveKey(place.key, 'rows', place.vaultId, salt)
    keys.set(name, made)
    return made
  }
}

const startState = (): VaultState => ({
  counter: 0,
  passwords: 0,
  head: 0,
  log: { seq: 0, hash: '0'.repeat(64) },
  told: 0,
})

const nameOf = (table: RowTable, id: number): Buffer => lengthPrefixed('row', table, String(id))
const stateName = (lineage: string): Buffer => lengthPrefixed('state', lineage)
