import type { Payout } from '../../domain/link.ts'
import type { ApiKey, SignInNonce, Store, StoreWallet } from '../../domain/store.ts'

export type StorePatch = Partial<
  Omit<Store, 'id' | 'createdAtMs' | 'createdBy' | 'payout' | 'payoutChangedAtMs'>
> & {
  /** New payout wallets. A chain that is left out stays unchanged. The change sets `payoutChangedAtMs`. */
  readonly payout?: Partial<Payout>
}

export interface StoreUpdateRules {
  /** Maximum renames within 24 hours, counted in the same commit. Absent for no limit. */
  readonly maxRenamesADay?: number
  /** The wallets that the patch replaces. If one of them has changed meanwhile, nothing is written. */
  readonly payoutWas?: Partial<Payout>
}

export interface Stores {
  /**
   * Creates a store, its wallet and its first key in one commit. `key` is null if the owner signs in with a browser.
   *
   * @throws `USERNAME_TAKEN`, or `CONFLICT` if the wallet already has a store
   */
  create(
    store: Omit<Store, 'payoutChangedAtMs' | 'socials'>,
    wallet: StoreWallet | null,
    key: ApiKey | null,
  ): Promise<void>
  /**
   * Changes a store, in one commit. After a rename, the old name redirects for 30 days, during which no other store may take it. A
   * store that {@link hasSold} keeps all its old names for that long. Any other store keeps only its last old name.
   *
   * @returns undefined if there is no such store, or its payout is not `payoutWas`
   * @throws `USERNAME_TAKEN`, or `RATE_LIMIT_EXCEEDED` with the time of the next possible rename if there were too many renames
   */
  update(
    id: string,
    patch: StorePatch,
    updatedAtMs: number,
    rules?: StoreUpdateRules,
  ): Promise<Store | undefined>
  find(id: string): Promise<Store | undefined>
  byUsername(username: string): Promise<Store | undefined>
  byWallet(chain: 'base' | 'solana', address: string): Promise<Store | undefined>
  /**
   * Ids of the stores that have been paid to a wallet for longer than this store, the longest first. If this store is not paid to
   * the wallet, ids of all stores that are.
   *
   * @param address in the spelling of `Store.payout`
   */
  paidLonger(storeId: string, chain: 'base' | 'solana', address: string): Promise<string[]>
  /** Every wallet to which a store is paid, in the spelling of `Store.payout`. */
  payoutWallets(chain: 'base' | 'solana'): Promise<string[]>
  /** The wallets that may sign in to a store, by chain and address. Empty if the operator created the store. */
  walletsOf(storeId: string): Promise<StoreWallet[]>
  /** Whether buyers may have seen a store's names, because it has sold or a payment to it is in flight. */
  hasSold(storeId: string): Promise<boolean>
  /** The current name of a store that had this name less than 30 days ago. */
  redirectOf(username: string, nowMs: number): Promise<string | undefined>
}

export interface ApiKeys {
  /** Adds a key. The same commit counts the keys. @throws `LIMIT_REACHED` if the store has `maxActive` active keys */
  add(key: ApiKey, maxActive: number): Promise<void>
  ofStore(storeId: string): Promise<ApiKey[]>
  byHash(keyHash: string): Promise<ApiKey | undefined>
  /** Revokes a key. May be repeated. @returns undefined if the store has no such key */
  revoke(storeId: string, id: string, atMs: number): Promise<ApiKey | undefined>
  /** Records the last use of a key, at most once a minute. The write may be lost in a crash. */
  touch(id: string, atMs: number): Promise<void>
}

export interface SignInNonces {
  add(nonce: SignInNonce): Promise<void>
  /** Reads and deletes a nonce in one commit, so that the nonce can be used only once. */
  take(nonce: string): Promise<SignInNonce | undefined>
  /**
   * Remembers the store of a finished sign-up by the SHA-256 of the signed message, so that a repeated request gets the same store.
   * It is remembered as long as the nonce would have been valid.
   */
  rememberSignup(messageHash: string, storeId: string, expiresAtMs: number): Promise<void>
  /**
   * Marks a nonce of a sign-in to a link as used.
   *
   * @param keptUntilMs until when it stays marked. No process may accept the nonce after that
   * @returns false if the nonce was already used
   */
  use(nonce: string, keptUntilMs: number): Promise<boolean>
  signupOf(messageHash: string, nowMs: number): Promise<string | undefined>
}
