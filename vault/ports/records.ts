/**
 * Kinds of records. The ids of `value` and `credential` are scopes, such as `identity.name`. A credential is used but not
 * shown. The host chooses the ids of all other kinds.
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
  /** Starts at 1 and increases by 1 with each write. A record that is written after a deletion starts at 1 again. */
  readonly version: number
  /** ISO 8601. */
  readonly updatedAt: string
}

export interface PutOptions {
  /**
   * Writes only if this is the current version, or 0 if the record must not exist. Otherwise the write fails with
   * `VERSION_CONFLICT`.
   */
  readonly ifVersion?: number
}

/**
 * The vault's encrypted records. Every record has its own data key, wrapped by the master key. Both are bound to the vault, the
 * collection, the id and the version, so that no ciphertext can replace another.
 *
 * Each method throws `VAULT_LOCKED` while the vault is locked. Readers in this process see a write at once, and it is on disk
 * when its promise is fulfilled. After `STORAGE_UNAVAILABLE` the previous value is back. Ids of `value` and `credential` are
 * validated scopes, otherwise `UNKNOWN_SCOPE`.
 */
export interface Records {
  /**
   * The bytes that were written last. Undefined without a record. The caller owns the buffer and zeroes it if it is a secret.
   */
  get(collection: Collection, id: string): Buffer | undefined
  /** The same as `get`, as UTF-8 text. A JavaScript string cannot be wiped from memory. */
  getText(collection: Collection, id: string): string | undefined
  /** The same as `get`, parsed as JSON. */
  getJson<T>(collection: Collection, id: string): T | undefined
  info(collection: Collection, id: string): RecordInfo | undefined
  /** Ids and versions, sorted by id, without decrypting anything. */
  list(collection: Collection): readonly RecordInfo[]
  /** Writes at most 256 KiB. `created` is true if the record did not exist. */
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
  /** True when the record existed. Its ciphertext is also wiped from the files. */
  delete(collection: Collection, id: string): Promise<boolean>
}
