import { keccak_256 } from '@noble/hashes/sha3.js'
import { base58 } from '@scure/base'
import { VaultError } from '../errors/error.ts'
import type { KeyFamily, KeyInfo, Keyring } from '../ports/keyring.ts'
import { derivationPath, derivedKeyId } from './derivation.ts'

/** The stored state of the keyring, without secrets. */
export interface KeyringState {
  readonly keys: readonly KeyInfo[]
  readonly defaults: { readonly evm: string; readonly solana: string }
  readonly testDefaults: { readonly evm: string; readonly solana: string }
}

export interface KeyringSupport {
  /** Throws when the vault is locked. */
  beforeUse(): void
  /** Requests a public key from the signing process. */
  publicKey(keyId: string): Promise<Buffer>
  save(state: KeyringState): Promise<void>
}

const firstKeys = { evm: derivedKeyId('evm', 0), solana: derivedKeyId('solana', 0) }
const firstTestKeys = { evm: derivedKeyId('evm', 0, true), solana: derivedKeyId('solana', 0, true) }

/** {@link Keyring} of one vault. Addresses come from memory. */
export class VaultKeyring implements Keyring {
  readonly #support: KeyringSupport
  readonly #keys = new Map<string, KeyInfo>()
  #defaults = firstKeys
  #testDefaults = firstTestKeys

  constructor(support: KeyringSupport) {
    this.#support = support
  }

  /** Loads the stored state. Undefined for a new seed. */
  load(state: KeyringState | undefined): void {
    this.clear()
    if (state === undefined) return
    for (const key of state.keys) {
      const isTest = key.isTest === true
      this.#keys.set(key.keyId, Object.freeze({ ...key, path: key.path, isTest }))
    }
    this.#defaults = { ...state.defaults }
    this.#testDefaults = { ...state.testDefaults }
  }

  clear(): void {
    this.#keys.clear()
    this.#defaults = firstKeys
    this.#testDefaults = firstTestKeys
  }

  /** The key ids that {@link default} returns. */
  get defaults(): Pick<KeyringState, 'defaults' | 'testDefaults'> {
    return { defaults: this.#defaults, testDefaults: this.#testDefaults }
  }

  list(): readonly KeyInfo[] {
    this.#support.beforeUse()
    return [...this.#keys.values()]
  }

  get(keyId: string): KeyInfo {
    this.#support.beforeUse()
    const key = this.#keys.get(keyId)
    if (key === undefined) throw new VaultError('KEY_UNKNOWN')
    return key
  }

  default(family: KeyFamily, isTest = false): KeyInfo {
    return this.get((isTest ? this.#testDefaults : this.#defaults)[family])
  }

  async setDefault(family: KeyFamily, keyId: string): Promise<void> {
    const key = this.get(keyId)
    if (key.family !== family) {
      throw new VaultError('VALIDATION_ERROR', `Expected a key of ${family}, but ${keyId} is not one.`)
    }
    if (key.isTest) this.#testDefaults = { ...this.#testDefaults, [family]: keyId }
    else this.#defaults = { ...this.#defaults, [family]: keyId }
    await this.#save()
  }

  async derive(family: KeyFamily, index: number, isTest = false): Promise<KeyInfo> {
    this.#support.beforeUse()
    const keyId = derivedKeyId(family, index, isTest)
    const path = derivationPath(family, index, isTest)
    return this.#keys.get(keyId) ?? this.add({ keyId, family, source: 'seed', path, isTest })
  }

  isShared(key: KeyInfo): boolean {
    this.#support.beforeUse()
    for (const other of this.#keys.values())
      if (!other.isTest && other.publicKey === key.publicKey) return true
    return false
  }

  /** Adds a key that the signing process already has. */
  async add(key: Omit<KeyInfo, 'address' | 'publicKey'>): Promise<KeyInfo> {
    const { keyId, family } = key
    const publicKey = await this.#support.publicKey(keyId)
    const address = family === 'evm' ? evmAddress(publicKey) : solanaAddress(publicKey)
    const added = Object.freeze({ ...key, address, publicKey: publicKey.toString('hex') })
    this.#keys.set(keyId, added)
    await this.#save()
    return added
  }

  #save(): Promise<void> {
    return this.#support.save({ keys: [...this.#keys.values()], ...this.defaults })
  }
}

/**
 * The checksummed address of an uncompressed secp256k1 public key (65 bytes, the first is 4): the last 20 bytes of keccak-256
 * over the other 64. @see https://eips.ethereum.org/EIPS/eip-55
 */
export function evmAddress(publicKey: Uint8Array): string {
  if (publicKey.length !== 65 || publicKey[0] !== 4) {
    throw new RangeError(`Expected an uncompressed public key of 65 bytes, got ${publicKey.length}.`)
  }
  const digits = Buffer.from(keccak_256(publicKey.subarray(1)))
    .subarray(12)
    .toString('hex')
  const check = Buffer.from(keccak_256(Buffer.from(digits, 'latin1'))).toString('hex')
  let address = '0x'
  for (let i = 0; i < 40; i++) address += check[i]! > '7' ? digits[i]!.toUpperCase() : digits[i]!
  return address
}

/** The address of an Ed25519 public key: its 32 bytes in base58. */
export function solanaAddress(publicKey: Uint8Array): string {
  if (publicKey.length !== 32)
    throw new RangeError(`Expected a public key of 32 bytes, got ${publicKey.length}.`)
  return base58.encode(publicKey)
}
