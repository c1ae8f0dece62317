import type { KeyObject } from 'node:crypto'
import { derivationPath, derivePrivateKey } from '../keys/derivation.ts'
import { parseDerivedKeyId } from '../keys/keyId.ts'
import type { KeyFamily } from '../ports/keyring.ts'
import type { SignKind } from '../ports/signer.ts'
import { ed25519Key, ed25519PublicKey, ed25519Sign } from './ed25519.ts'
import { evmDigest, isSolanaPreimage } from './preimage.ts'
import { loadSecp256k1 } from './secp256k1.ts'

type Key =
  | { readonly family: 'evm'; readonly privateKey: Buffer }
  | { readonly family: 'solana'; readonly key: KeyObject; readonly publicKey: Buffer }

/** The private keys, in the one process that has them. */
export class KeyStore {
  readonly #secp256k1 = loadSecp256k1()
  readonly #keys = new Map<string, Key>()
  #seed: Buffer | undefined

  /** Takes the place of an earlier one, and with it of every derived key. The bytes are copied. */
  setSeed(seed: Uint8Array): void {
    this.#seed?.fill(0)
    for (const [keyId, key] of this.#keys) {
      if (parseDerivedKeyId(keyId) === undefined) continue
      this.#keys.delete(keyId)
      if (key.family === 'evm') key.privateKey.fill(0)
    }
    this.#seed = Buffer.from(seed)
  }

  /** The bytes are copied. @throws when they are no private key of the family. */
  addImported(keyId: string, family: KeyFamily, privateKey: Uint8Array): void {
    this.#keys.set(keyId, this.#toKey(family, Buffer.from(privateKey)))
  }

  /** 65 bytes for EVM, 32 for Solana, in a buffer of their own; undefined when there is no such key. */
  publicKey(keyId: string): Buffer | undefined {
    const key = this.#find(keyId)
    if (key === undefined) return undefined
    return key.family === 'evm' ? this.#secp256k1.publicKey(key.privateKey) : Buffer.from(key.publicKey)
  }

  /** The 32 private bytes in a buffer of their own, or undefined when there is no such key. The caller zeroes them. */
  privateKey(keyId: string): Buffer | undefined {
    const key = this.#find(keyId)
    if (key?.family !== 'solana') return key && Buffer.from(key.privateKey)
    const der = key.key.export({ format: 'der', type: 'pkcs8' })
    const bytes = Buffer.from(der.subarray(-32))
    der.fill(0)
    return bytes
  }

  sign(keyId: string, kind: SignKind, bytes: Uint8Array): Buffer | 'key-unknown' | 'wrong-kind' {
    const key = this.#find(keyId)
    if (key === undefined) return 'key-unknown'
    if (key.family === 'solana') {
      return isSolanaPreimage(kind, bytes, key.publicKey) ? ed25519Sign(key.key, bytes) : 'wrong-kind'
    }
    const digest = evmDigest(kind, bytes)
    return digest === undefined ? 'wrong-kind' : this.#secp256k1.sign(digest, key.privateKey)
  }

  /** Zeroes what JavaScript can reach; the rest goes with the process. */
  wipe(): void {
    this.#seed?.fill(0)
    this.#seed = undefined
    for (const key of this.#keys.values()) if (key.family === 'evm') key.privateKey.fill(0)
    this.#keys.clear()
  }

  #find(keyId: string): Key | undefined {
    const found = this.#keys.get(keyId)
    if (found !== undefined) return found
    const derived = parseDerivedKeyId(keyId)
    if (derived === undefined || this.#seed === undefined) return undefined
    const { family, index, isTest } = derived
    const key = this.#toKey(
      family,
      derivePrivateKey(family, this.#seed, derivationPath(family, index, isTest)),
    )
    this.#keys.set(keyId, key)
    return key
  }

  /** Takes the buffer over. */
  #toKey(family: KeyFamily, privateKey: Buffer): Key {
    if (family === 'solana') {
      const key = ed25519Key(privateKey)
      privateKey.fill(0)
      return { family, key, publicKey: ed25519PublicKey(key) }
    }
    if (!this.#secp256k1.isPrivateKey(privateKey))
      throw new RangeError('Expected a private key of secp256k1.')
    return { family, privateKey }
  }
}
