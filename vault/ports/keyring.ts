/** Which curve and address form: `evm` is secp256k1 with a keccak address, `solana` is Ed25519 with base58. */
export type KeyFamily = 'evm' | 'solana'

/** One key, without anything secret. */
export interface KeyInfo {
  /** `evm:0`, `solana:3`, `solana-test:0` for derived keys (family, account index); `import:<name>` for imported ones. */
  readonly keyId: string
  readonly family: KeyFamily
  /** EIP-55 for EVM, base58 for Solana. */
  readonly address: string
  /** Hex: 65 bytes uncompressed for EVM, 32 bytes for Solana. */
  readonly publicKey: string
  readonly source: 'seed' | 'import'
  /** `m/44'/60'/0'/0/0` or `m/44'/501'/0'/0'`; undefined for imported keys. */
  readonly path: string | undefined
  /** True for a key that is for test chains only, and used on no other. */
  readonly isTest: boolean
}

/** The vault's keys by id. Throws `VAULT_LOCKED` while locked; private keys never come out of here. */
export interface Keyring {
  list(): readonly KeyInfo[]
  /** The key of this id. Throws `KEY_UNKNOWN`. */
  get(keyId: string): KeyInfo
  /**
   * The key that a family's address is asked of when none is named: index 0, unless {@link setDefault} said otherwise. Test
   * chains have keys of their own.
   */
  default(family: KeyFamily, isTest?: boolean): KeyInfo
  /** From now on this one is the default where it may be used: a key for test chains on these, any other on the rest. */
  setDefault(family: KeyFamily, keyId: string): Promise<void>
  /** Adds the account of this index (0 to 2³¹-1) and remembers it; the same index again gives the same key. */
  derive(family: KeyFamily, index: number, isTest?: boolean): Promise<KeyInfo>
  /** Whether a key for test chains is also one that holds real money: the same private key was imported for both. */
  isShared(key: KeyInfo): boolean
}
