import type { AuditLog } from './audit.ts'
import type { BudgetBook } from './budget.ts'
import type { KeyFamily, KeyInfo, Keyring } from './keyring.ts'
import type { Records } from './records.ts'
import type { Signer } from './signer.ts'

/**
 * Why a vault locked itself, or was locked; `signer`: the signing process ended by itself, and the keys with it; `taken`: this
 * process stood still, and another one has the folder now.
 */
export type LockReason = 'owner' | 'idle' | 'age' | 'closing' | 'signer' | 'taken'

/** Where a password came in: the owner's socket, or a signed-in approvals page. Wrong ones are counted apart. */
export type Door = 'socket' | 'page'

export interface VaultState {
  readonly vaultId: string
  readonly locked: boolean
  /** While locked: why; undefined when it was not open since it was started. */
  readonly lockReason: LockReason | undefined
  /** Milliseconds since 1970, while unlocked: when it locks at the latest, whatever happens. */
  readonly locksAtMs: number | undefined
  /** While unlocked: when it locks if nothing uses it until then. */
  readonly idleLocksAtMs: number | undefined
  /** Milliseconds until a password is looked at again on the socket; 0 when at once. */
  readonly retryAfterMs: number
  /** The same for the approvals page. */
  readonly pageRetryAfterMs: number
  /** What was found wrong with the log on opening; see `AuditLog.damage`. */
  readonly auditDamage: string | undefined
}

/**
 * One vault, opened by this process alone. Opening needs no password; everything that is kept secret does.
 *
 * `records`, `keys`, `budget` and `signer` are the same objects for the vault's whole life and throw `VAULT_LOCKED` while
 * it is locked. `audit` works always.
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
   * @throws `BAD_PASSWORD` (with `retryAfterSeconds`), `TOO_MANY_ATTEMPTS` (with `retryAfterSeconds`) without looking at the password,
   *         `VAULT_CORRUPT` naming a file. The attempt is on disk as a failure before the password is tried.
   * @param door whose wait holds. Default: the socket.
   */
  unlock(password: string, door?: Door): Promise<VaultState>
  /** Zeroes every key, ends the signing process and waits for its end. Requests under way fail with `VAULT_LOCKED`. */
  lock(reason?: LockReason): Promise<void>
  /** Called after each lock, by whomever. Returns how to stop listening. */
  onLock(listener: (reason: LockReason) => void): () => void
  /** Throws `VAULT_LOCKED` unless unlocked, after locking a vault whose time is over; counts as a use. */
  assertUnlocked(): void

  /** Wraps the master key anew; no record is touched. Throttled like `unlock`. Works locked or unlocked. */
  changePassword(current: string, next: string): Promise<void>
  /** The words. Asks for the password again, throttled like `unlock`; the vault must be unlocked. */
  exportMnemonic(password: string): Promise<string>
  /** Replaces the seed and with it every derived key; the old seed stays in the vault, under a name of its own. */
  importMnemonic(password: string, mnemonic: string): Promise<void>
  /**
   * Takes in a raw key: 32 bytes for EVM; 32 (seed) or 64 bytes (seed and public key) for Solana, zeroed afterwards. The id
   * becomes `import:<name>`. `isTest` says that it is for test chains, and keeps it off every other; default false.
   */
  importKey(
    password: string,
    family: KeyFamily,
    name: string,
    privateKey: Uint8Array,
    isTest?: boolean,
  ): Promise<KeyInfo>
  /** The raw 32 bytes of one key; the caller zeroes them. Asks for the password again. */
  exportKey(password: string, keyId: string): Promise<Buffer>
  /** Writes everything, encrypted, to one new file (0600). It opens with the password of this moment. */
  backup(file: string): Promise<void>
  /** Locks and lets another process open the vault. */
  close(): Promise<void>
}
