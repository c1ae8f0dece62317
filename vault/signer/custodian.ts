import { randomBytes, timingSafeEqual } from 'node:crypto'
import { deriveKey, keyBytes, openRecord, seal, sealRecord, unseal } from '../disk/aead.ts'
import { isVaultError } from '../errors/error.ts'
import { checkPrivateKey } from '../keys/curves.ts'
import { encodeSeed, mnemonicOf, seedOf } from '../keys/mnemonic.ts'
import type { KeyFamily } from '../ports/keyring.ts'
import type { KeyStore } from './keyStore.ts'
import { deriveHostKeys, fromChild, type Proof, packFields } from './protocol.ts'

/** Why a request was refused. It has a status of {@link fromChild}, and a message that quotes nothing secret. */
export class Refusal extends Error {
  readonly status: number

  constructor(status: number, message = '') {
    super(message)
    this.status = status
  }
}

/** One record in sealed form. */
export interface SealedRecord {
  readonly id: string
  readonly version: number
  readonly sealed: Uint8Array
}

/**
 * The master key, and all operations on it and on key records. They are only in this process. Each operation that exports or
 * imports a key requires the {@link Proof}, so a program at the other end of the pipe can get signatures but no key.
 *
 * Every method throws {@link Refusal}. The caller still owns the buffers that it passes, which are read before anything is
 * awaited. The caller zeroes returned buffers.
 */
export class Custodian {
  readonly #store: KeyStore
  #masterKey: Buffer | undefined
  #vaultId = ''

  constructor(store: KeyStore) {
    this.#store = store
  }

  /** Creates the master key of a new vault. @returns the wrapped master key and the host's keys */
  create({ vaultId, associated, passwordKey }: Omit<Proof, 'wrappedKey'>): Buffer {
    if (this.#masterKey !== undefined) throw new Refusal(fromChild.failed)
    this.#masterKey = randomBytes(keyBytes)
    this.#vaultId = vaultId
    return responseOf(
      seal(passwordKey, this.#masterKey, associated),
      deriveHostKeys(this.#masterKey, vaultId),
    )
  }

  /** Unwraps the master key with the proof and stores it in memory. @returns the host's keys */
  open(proof: Proof): Buffer {
    const masterKey = this.#prove(proof)
    if (this.#masterKey !== undefined) masterKey.fill(0)
    else {
      this.#masterKey = masterKey
      this.#vaultId = proof.vaultId
    }
    return deriveHostKeys(this.#masterKey!, this.#vaultId)
  }

  check(proof: Proof): void {
    this.#prove(proof).fill(0)
  }

  /** Wraps the master key with another password key. */
  wrap(proof: Proof, passwordKey: Uint8Array, associated: Uint8Array): Buffer {
    const masterKey = this.#prove(proof)
    try {
      return seal(passwordKey, masterKey, associated)
    } finally {
      masterKey.fill(0)
    }
  }

  /** Derives the key of the backup with this salt. */
  backupKey(salt: Uint8Array): Buffer {
    return deriveKey(this.#opened(), 'backup', this.#vaultId, salt)
  }

  /** Loads a key record, to sign with its keys. */
  load(record: SealedRecord): void {
    const plain = this.#unsealed(record)
    try {
      if (record.id === 'seed') {
        const seed = seedOf(plain)
        this.#store.setSeed(seed)
        seed.fill(0)
        return
      }
      const { family, privateKey } = decodeImported(plain)
      this.#store.addImported(record.id, family, privateKey)
    } finally {
      plain.fill(0)
    }
  }

  /** Imports a raw key, which can sign from now on. @returns its sealed record */
  importKey(
    proof: Proof,
    { id, version }: Omit<SealedRecord, 'sealed'>,
    family: KeyFamily,
    bytes: Uint8Array,
  ): Buffer {
    this.check(proof)
    const privateKey = worded(() => checkPrivateKey(family, bytes))
    const record = encodeImported(family, privateKey)
    try {
      const sealed = this.#sealed(id, version, record)
      this.#store.addImported(id, family, privateKey)
      return sealed
    } finally {
      privateKey.fill(0)
      record.fill(0)
    }
  }

  /**
   * @param kept the current record of the seed, and the name under which that seed is stored from now on. Absent for a new
   *   vault
   * @returns the sealed record of the words, then that of the replaced seed. The new seed signs only after it is loaded
   */
  async importSeed(
    proof: Proof,
    words: Uint8Array,
    version: number,
    kept?: { readonly record: SealedRecord; readonly as: Omit<SealedRecord, 'sealed'> },
  ): Promise<Buffer> {
    this.check(proof)
    const old = kept && this.#unsealed(kept.record)
    try {
      const again = kept && this.#sealed(kept.as.id, kept.as.version, old!)
      const text = Buffer.from(words).toString('utf8')
      const record = await encodeSeed(text).catch((error: unknown) => {
        throw wordedOf(error)
      })
      const sealed = this.#sealed('seed', version, record)
      record.fill(0)
      return packFields(again === undefined ? [sealed] : [sealed, again])
    } finally {
      old?.fill(0)
    }
  }

  /** The 32 private bytes of a loaded key. */
  exportKey(proof: Proof, keyId: string): Buffer {
    this.check(proof)
    const privateKey = this.#store.privateKey(keyId)
    if (privateKey === undefined) throw new Refusal(fromChild.keyUnknown)
    return privateKey
  }

  /** The recovery words in a seed's record. */
  exportWords(proof: Proof, record: SealedRecord): Buffer {
    this.check(proof)
    const plain = this.#unsealed(record)
    try {
      return Buffer.from(mnemonicOf(plain), 'utf8')
    } finally {
      plain.fill(0)
    }
  }

  wipe(): void {
    this.#masterKey?.fill(0)
    this.#masterKey = undefined
    this.#store.wipe()
  }

  /** Unwraps the master key into a new buffer. It must equal the current master key, if there is one. */
  #prove({ vaultId, wrappedKey, associated, passwordKey }: Proof): Buffer {
    const masterKey = unseal(passwordKey, wrappedKey, associated)
    if (masterKey === undefined) throw new Refusal(fromChild.badPassword)
    const held = this.#masterKey
    if (held === undefined || (vaultId === this.#vaultId && timingSafeEqual(held, masterKey)))
      return masterKey
    masterKey.fill(0)
    throw new Refusal(fromChild.badPassword)
  }

  #opened(): Buffer {
    if (this.#masterKey === undefined) throw new Refusal(fromChild.failed)
    return this.#masterKey
  }

  #sealed(id: string, version: number, plain: Uint8Array): Buffer {
    return sealRecord(this.#opened(), this.#nameOf(id, version), plain)
  }

  #unsealed({ id, version, sealed }: SealedRecord): Buffer {
    const plain = openRecord(this.#opened(), this.#nameOf(id, version), sealed)
    if (plain === undefined) throw new Refusal(fromChild.corrupt)
    return plain
  }

  #nameOf(id: string, version: number) {
    const scope = keyScope(id)
    if (!isKeyRecord(scope)) throw new Refusal(fromChild.failed)
    return { vaultId: this.#vaultId, scope, version }
  }
}

/** Joins fields to a response and zeroes them. */
function responseOf(...fields: readonly Buffer[]): Buffer {
  const packed = packFields(fields)
  for (const field of fields) field.fill(0)
  return packed
}

function worded<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw wordedOf(error)
  }
}

/**
 * The refusal for an error. The vault's own messages do not quote the owner's input. A library's message might, so it is left
 * out.
 */
function wordedOf(error: unknown): Refusal {
  return isVaultError(error) ? new Refusal(fromChild.refused, error.message) : new Refusal(fromChild.failed)
}

/** Key records: the seed, earlier seeds, imported keys. Only the signing process opens and seals them. */
const ownId = /^(?:seed|seed-\d+|import:.+)$/
const ownPrefix = 'key/'

/** Whether a record, named by its collection and id, is a key record. */
const isKeyRecord = (scope: string): boolean =>
  scope.startsWith(ownPrefix) && ownId.test(scope.slice(ownPrefix.length))

/** The full name of a key record by its id. */
const keyScope = (id: string): string => `${ownPrefix}${id}`

/** An imported key as the content of its record, which is a byte for the family and the private bytes. */
const encodeImported = (family: KeyFamily, privateKey: Uint8Array): Buffer =>
  Buffer.concat([Uint8Array.of(family === 'evm' ? 0 : 1), privateKey])

/** Reads an imported key's record without a copy. */
const decodeImported = (record: Buffer): { readonly family: KeyFamily; readonly privateKey: Buffer } => ({
  family: record[0] === 0 ? 'evm' : 'solana',
  privateKey: record.subarray(1),
})
