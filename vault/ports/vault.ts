import type { AuditLog } from './audit.ts'
import type { BudgetBook } from './budget.ts'
import type { KeyFamily, KeyInfo, Keyring } from './keyring.ts'
import type { Records } from './records.ts'
import type { Signer } from './signer.ts'

/**
 * Why a vault was locked. `signer`: the signing process exited unexpectedly, so the keys are gone. `taken`: this process was
 * paused, and another process has taken the folder over.
 */
export type LockReason = 'owner' | 'idle' | 'age' | 'closing' | 'signer' | 'taken'

/**
 * Where a password was entered: on the owner's socket, or on a signed-in approvals page. Wrong passwords are counted
 * separately for each.
 */
export type Transport = 'socket' | 'page'

export interface VaultState {
  readonly vaultId: string
  readonly locked: boolean
  /** Why the vault is locked. Undefined if it was not unlocked since its start, or is unlocked. */
  readonly lockReason: LockReason | undefined
  /** When an unlocked vault locks even if it is in use, in ms since 1970. */
  readonly locksAtMs: number | undefined
  /** When an unlocked vault locks if it is not used until then, in ms since 1970. */
  readonly idleLocksAtMs: number | undefined
  /** Time until the socket accepts another password, in ms. 0 when it accepts one at once. */
  readonly retryAfterMs: number
  /** Time until the approvals page accepts another password, in ms. 0 when it accepts one at once. */
  readonly pageRetryAfterMs: number
  /** The problem of the log that was found when it was opened. See `AuditLog.damage`. */
  readonly auditDamage: string | undefined
}

/**
 * One vault, which only this process has open. Opening a vault needs no password, but access to its secrets does.
 *
 * `records`, `keys`, `budget` and `signer` are the same objects for the vault's whole life, and throw `VAULT_LOCKED` while it
 * is locked. `audit` always works.
 */
export interface Vault {
  readonly vaultId: string
  readonly state: VaultState
  readonly records: Records
  readonly keys: Keyring
  readonly signer: Signer
  readonly budget: BudgetBook
  readonly audit: AuditLog

  /**
   * Unlocks the vault. Before the password is checked, the attempt is recorded on disk as a failure.
   * @param transport whose wait applies. Default: the socket
   * @throws `BAD_PASSWORD` (with `retryAfterSeconds`), `TOO_MANY_ATTEMPTS` (with `retryAfterSeconds`) without checking the
   *   password, `VAULT_CORRUPT` naming a file
   */
  unlock(password: string, transport?: Transport): Promise<VaultState>
  /** Zeroes every key, ends the signing process and waits for its end. Running requests fail with `VAULT_LOCKED`. */
  lock(reason?: LockReason): Promise<void>
  /** Calls the listener after each lock, for any reason. Returns a function that removes the listener. */
  onLock(listener: (reason: LockReason) => void): () => void
  /**
   * Throws `VAULT_LOCKED` unless the vault is unlocked. If the vault's time is over, it locks it first. The call counts as use
   * of the vault.
   */
  assertUnlocked(): void

  /**
   * Changes the password of a locked or unlocked vault. This only rewraps the master key and touches no record. Throttled like
   * `unlock`.
   */
  changePassword(current: string, next: string): Promise<void>
  /** The recovery words. Requires the password again, throttled like `unlock`. The vault must be unlocked. */
  exportMnemonic(password: string): Promise<string>
  /** Replaces the seed, and with it every derived key. The vault stores the old seed under another name. */
  importMnemonic(password: string, mnemonic: string): Promise<void>
  /**
   * Imports a raw key: 32 bytes for EVM, 32 (seed) or 64 bytes (seed and public key) for Solana. The bytes are zeroed
   * afterwards. The key's id is `import:<name>`. `isTest` limits the key to test chains. Default false.
   */
  importKey(
    password: string,
    family: KeyFamily,
    name: string,
    privateKey: Uint8Array,
    isTest?: boolean,
  ): Promise<KeyInfo>
  /** The raw 32 bytes of one key, which the caller zeroes. Requires the password again. */
  exportKey(password: string, keyId: string): Promise<Buffer>
  /** Writes the whole vault, encrypted, to one new file (0600). The password at the time of the backup opens it. */
  backup(file: string): Promise<void>
  /** Locks the vault and lets another process open it. */
  close(): Promise<void>
}
