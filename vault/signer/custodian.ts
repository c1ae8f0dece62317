import { randomBytes, timingSafeEqual } from 'node:crypto'
import { isVaultError } from '../errors/error.ts'
import { checkPrivateKey } from '../keys/checkPrivateKey.ts'
import type { KeyFamily } from '../ports/keyring.ts'
import { deriveKey, keyBytes, seal, unseal } from '../storage/disk/aead.ts'
import { openRecord, sealRecord } from '../storage/records/envelope.ts'
import { encodeSeed, mnemonicOf, seedOf } from '../storage/records/seedRecord.ts'
import { deriveHostKeys } from './hostKeys.ts'
import { decodeImported, encodeImported, isKeyRecord, keyScope } from './keyRecord.ts'
import type { KeyStore } from './keyStore.ts'
import { fromChild, type Proof, packFields } from './protocol.ts'

/** Why something was not done: a status of {@link fromChild}, and words that quote nothing secret. */
export class Refusal extends Error {
  readonly status: number

  constructor(status: number, message = '') {
    super(message)
    this.status = status
  }
}

/** One record, as it is sealed. */
export interface SealedRecord {
  readonly id: string
  readonly version: number
  readonly sealed: Uint8Array
}

/**
 * The master key, and all that is done with it and with records of keys, in the one process that has them. What would give a
 * key away, or take one in, wants the {@link Proof} with it each time: whoever holds the other end of the pipe alone gets
 * signatures and no key.
 *
 * Every method throws {@link Refusal}. Buffers that are given are the caller's and are read before anything is awaited;
 * buffers that come back are zeroed by the caller.
 */
export class Custodian {
  readonly #store: KeyStore
  #masterKey: Buffer | undefined
  #vaultId = ''

  constructor(store: KeyStore) {
    this.#store = store
  }

  /** Makes the master key of a new vault. @returns it, wrapped, and the host's keys */
  create({ vaultId, associated, passwordKey }: Omit<Proof, 'wrappedKey'>): Buffer {
    if (this.#masterKey !== undefined) throw new Refusal(fromChild.failed)
    this.#masterKey = randomBytes(keyBytes)
    this.#vaultId = vaultId
    return answerOf(seal(passwordKey, this.#masterKey, associated), deriveHostKeys(this.#masterKey, vaultId))
  }

  /** Keeps the master key that the proof opens. @returns the host's keys */
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

  /** The master key under another password key. */
  wrap(proof: Proof, passwordKey: Uint8Array, associated: Uint8Array): Buffer {
    const masterKey = this.#prove(proof)
    try {
      return seal(passwordKey, masterKey, associated)
    } finally {
      masterKey.fill(0)
    }
  }

  /** The key of one backup, which has this salt. */
  backupKey(salt: Uint8Array): Buffer {
    return deriveKey(this.#opened(), 'backup', this.#vaultId, salt)
  }

  /** Takes a record of keys in, to sign with what it holds. */
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

  /** @returns the sealed record of a raw key, which signs from now on */
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
   * @param kept the record of the seed as it is, and the name under which it stays; absent from a new vault
   * @returns the sealed record of the words, then of the seed that it replaces; nothing signs with it before it is loaded
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

  /** The 32 private bytes of a key that signs here. */
  exportKey(proof: Proof, keyId: string): Buffer {
    this.check(proof)
    const privateKey = this.#store.privateKey(keyId)
    if (privateKey === undefined) throw new Refusal(fromChild.keyUnknown)
    return privateKey
  }

  /** The words that the record of a seed holds. */
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

  /** The master key in a buffer of its own; it must be the one that is held, when one is. */
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

/** Fields as an answer; they are zeroed. */
function answerOf(...fields: readonly Buffer[]): Buffer {
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

/** Our own words about what the owner gave quote nothing of it; a library's might, and are left out. */
function wordedOf(error: unknown): Refusal {
  return isVaultError(error) ? new Refusal(fromChild.refused, error.message) : new Refusal(fromChild.failed)
}
