/**
 * What kinds of things records are. `value` is what a scope names (`identity.name`), `credential` what is used for a scope
 * without being shown; the id of every other kind is the host's own.
 */
export const collections = [
  'value',
  'credential',
  'agent',
  'policy',
  'pairing',
  'approval',
  'setting',
  'state',
] as const
export type Collection = (typeof collections)[number]

export interface RecordInfo {
  readonly collection: Collection
  readonly id: string
  /** 1 for a new record, one more with each write. A record that is written after it was deleted is new. */
  readonly version: number
  /** ISO 8601. */
  readonly updatedAt: string
}

export interface PutOptions {
  /** Writes only when this is the version there is; 0 when there must be none. Otherwise `VERSION_CONFLICT`. */
  readonly ifVersion?: number
}

/**
 * The vault's encrypted records. Every record has a data key of its own, wrapped by the master key; both are bound to
 * the vault, the collection, the id and the version, so that no ciphertext stands for another.
 *
 * Each method throws `VAULT_LOCKED` while the vault is locked. A write is on disk when its promise is fulfilled, and
 * visible to readers of this process at once; after `STORAGE_UNAVAILABLE` the vault must be opened again.
 * Ids of `value` and `credential` are checked scopes: `UNKNOWN_SCOPE` otherwise.
 */
export interface Records {
  /** The bytes written last, or undefined. The caller owns the buffer and zeroes it when it was a secret. */
  get(collection: Collection, id: string): Buffer | undefined
  /** The same as UTF-8 text. A JavaScript string can not be wiped from memory. */
  getText(collection: Collection, id: string): string | undefined
  /** The same as JSON. */
  getJson<T>(collection: Collection, id: string): T | undefined
  info(collection: Collection, id: string): RecordInfo | undefined
  /** Ids and versions, sorted by id; nothing is decrypted. */
  list(collection: Collection): readonly RecordInfo[]
  /** At most 256 KiB. `created` is true when there was no such record. */
  put(
    collection: Collection,
    id: string,
    value: Uint8Array | string,
    options?: PutOptions,
  ): Promise<RecordInfo & { readonly created: boolean }>
  putJson(
    collection: Collection,
    id: string,
    value: unknown,
    options?: PutOptions,
  ): Promise<RecordInfo & { readonly created: boolean }>
  /** True when there was one. The file is rewritten, so that the old ciphertext is gone from it too. */
  delete(collection: Collection, id: string): Promise<boolean>
}
