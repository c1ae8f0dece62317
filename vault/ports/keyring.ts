/** The kind of a key. `evm` is secp256k1 with a keccak address, `solana` is Ed25519 with a base58 address. */
export type KeyFamily = 'evm' | 'solana'

/** One key, without its secret. */
export interface KeyInfo {
  /** `evm:0`, `solana:3`, `solana-test:0` for derived keys (family, account index); `import:<name>` for imported ones. */
  readonly keyId: string
  readonly family: KeyFamily
  /** EIP-55 for EVM, base58 for Solana. */
  readonly address: string
  /** Hex: 65 bytes uncompressed for EVM, 32 bytes for Solana. */
  readonly publicKey: string
  readonly source: 'seed' | 'import'
  /** `m/44'/60'/0'/0/0` or `m/44'/501'/0'/0'`. Undefined for imported keys. */
  readonly path: string | undefined
  /** True for a key that is used only on test chains. */
  readonly isTest: boolean
}

/** The vault's keys by id. Every method throws `VAULT_LOCKED` while the vault is locked, and none returns a private key. */
export interface Keyring {
  list(): readonly KeyInfo[]
  /** The key with this id. Throws `KEY_UNKNOWN`. */
  get(keyId: string): KeyInfo
  /**
   * The key of a family for requests that name no key. It has index 0, unless {@link setDefault} changed it. Test chains have
   * their own keys.
   */
  default(family: KeyFamily, isTest?: boolean): KeyInfo
  /** Makes a key the default. A test key becomes the default on test chains, any other key on all other chains. */
  setDefault(family: KeyFamily, keyId: string): Promise<void>
  /** Adds the account with this index (0 to 2³¹-1) and stores it. The same index again returns the same key. */
  derive(family: KeyFamily, index: number, isTest?: boolean): Promise<KeyInfo>
  /** Whether a test key is also used with real money, because the same private key was imported for both. */
  isShared(key: KeyInfo): boolean
}
