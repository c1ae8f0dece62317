import type { Payout } from '../../domain/link.ts'
import type { ApiKey, SignInNonce, Store, StoreWallet } from '../../domain/store.ts'

export type StorePatch = Partial<
  Omit<Store, 'id' | 'createdAtMs' | 'createdBy' | 'payout' | 'payoutChangedAtMs'>
> & {
  /** A chain that is left out stays as it is, whatever became of it meanwhile. Sets `payoutChangedAtMs`. */
  readonly payout?: Partial<Payout>
}

export interface StoreUpdateRules {
  /** Renames within 24 hours, counted in the same commit; none named means no limit. */
  readonly maxRenamesADay?: number
  /** The wallets that are to be replaced: where one of them is another by now, nothing changes. */
  readonly payoutWas?: Partial<Payout>
}

export interface Stores {
  /**
   * Creates the store, its wallet and its first key in one commit; without a key where somebody signs in with a browser.
   * @throws `USERNAME_TAKEN`; `CONFLICT` when the wallet has a store already.
   */
  create(
    store: Omit<Store, 'payoutChangedAtMs' | 'socials'>,
    wallet: StoreWallet | null,
    key: ApiKey | null,
  ): Promise<void>
  /**
   * The old name redirects for 30 days, during which no other store may take it. A store that {@link hasSold} keeps every old name
   * for that long; one that has not keeps the last, and older ones are free again.
   * All of it or nothing, in one commit.
   *
   * @returns undefined when there is no such store, or its payout is not `payoutWas`
   * @throws `USERNAME_TAKEN`; `RATE_LIMIT_EXCEEDED` that says when, for a rename too many
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
   * Ids of the stores that have been paid to a wallet for longer than this one, longest first; all that are paid there when
   * this one is not.
   *
   * @param address as it stands in `Store.payout`
   */
  paidLonger(storeId: string, chain: 'base' | 'solana', address: string): Promise<string[]>
  /** Every wallet that some store is paid to, as it stands in `Store.payout`. */
  payoutWallets(chain: 'base' | 'solana'): Promise<string[]>
  /** The wallets that may sign in to a store, by chain and address; none where the operator opened it. */
  walletsOf(storeId: string): Promise<StoreWallet[]>
  /** Whether a store's names are known to buyers: it has sold, or a payment to it is under way. */
  hasSold(storeId: string): Promise<boolean>
  /** The present name of a store that was called so less than 30 days ago. */
  redirectOf(username: string, nowMs: number): Promise<string | undefined>
}

export interface ApiKeys {
  /** @throws `LIMIT_REACHED` when the store has `maxActive` active keys; counted and inserted in one commit. */
  add(key: ApiKey, maxActive: number): Promise<void>
  ofStore(storeId: string): Promise<ApiKey[]>
  byHash(keyHash: string): Promise<ApiKey | undefined>
  /** Idempotent; undefined when the store has no such key. */
  revoke(storeId: string, id: string, atMs: number): Promise<ApiKey | undefined>
  /** May be lost in a crash; written at most once a minute per key. */
  touch(id: string, atMs: number): Promise<void>
}

export interface SignInNonces {
  add(nonce: SignInNonce): Promise<void>
  /** Reads and removes in one commit, so that a nonce is used once. */
  take(nonce: string): Promise<SignInNonce | undefined>
  /**
   * Answers of finished sign-ups by the SHA-256 of their signed message, so that a client's repeated request gets the
   * same store; kept as long as the nonce would have lived.
   */
  rememberSignup(messageHash: string, storeId: string, expiresAtMs: number): Promise<void>
  signupOf(messageHash: string, nowMs: number): Promise<string | undefined>
}
