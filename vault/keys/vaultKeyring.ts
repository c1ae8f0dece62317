import { VaultError } from '../errors/error.ts'
import type { KeyFamily, KeyInfo, Keyring } from '../ports/keyring.ts'
import { derivationPath } from './derivation.ts'
import { evmAddress } from './evmAddress.ts'
import { derivedKeyId } from './keyId.ts'
import { solanaAddress } from './solanaAddress.ts'

/** What of the keyring is kept: nothing secret. */
export interface KeyringState {
  readonly keys: readonly KeyInfo[]
  readonly defaults: { readonly evm: string; readonly solana: string }
}

export interface KeyringSupport {
  /** Throws when the vault is locked. */
  beforeUse(): void
  /** Asks the signing process. */
  publicKey(keyId: string): Promise<Buffer>
  save(state: KeyringState): Promise<void>
}

/** {@link Keyring} of one vault; addresses are answered from memory. */
export class VaultKeyring implements Keyring {
  readonly #support: KeyringSupport
  readonly #keys = new Map<string, KeyInfo>()
  #defaults = { evm: derivedKeyId('evm', 0), solana: derivedKeyId('solana', 0) }

  constructor(support: KeyringSupport) {
    this.#support = support
  }

  /** Takes in what was saved; for a new seed, nothing. */
  load(state: KeyringState | undefined): void {
    this.clear()
    if (state === undefined) return
    for (const key of state.keys) this.#keys.set(key.keyId, Object.freeze({ ...key, path: key.path }))
    this.#defaults = { ...state.defaults }
  }

  clear(): void {
    this.#keys.clear()
    this.#defaults = { evm: derivedKeyId('evm', 0), solana: derivedKeyId('solana', 0) }
  }

  /** Key ids that {@link default} answers with. */
  get defaults(): KeyringState['defaults'] {
    return this.#defaults
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

  default(family: KeyFamily): KeyInfo {
    return this.get(this.#defaults[family])
  }

  async setDefault(family: KeyFamily, keyId: string): Promise<void> {
    if (this.get(keyId).family !== family) {
      throw new VaultError('VALIDATION_ERROR', `Expected a key of ${family}, but ${keyId} is not one.`)
    }
    this.#defaults = { ...this.#defaults, [family]: keyId }
    await this.#save()
  }

  async derive(family: KeyFamily, index: number): Promise<KeyInfo> {
    this.#support.beforeUse()
    const keyId = derivedKeyId(family, index)
    return this.#keys.get(keyId) ?? this.add(keyId, family, 'seed', derivationPath(family, index))
  }

  /** Remembers a key that the signing process has. */
  async add(
    keyId: string,
    family: KeyFamily,
    source: 'seed' | 'import',
    path: string | undefined,
  ): Promise<KeyInfo> {
    const publicKey = await this.#support.publicKey(keyId)
    const address = family === 'evm' ? evmAddress(publicKey) : solanaAddress(publicKey)
    const key = Object.freeze({ keyId, family, address, publicKey: publicKey.toString('hex'), source, path })
    this.#keys.set(keyId, key)
    await this.#save()
    return key
  }

  #save(): Promise<void> {
    return this.#support.save({ keys: [...this.#keys.values()], defaults: this.#defaults })
  }
}
