import type { Payout, StoreId } from './link.ts'

/** A seller's account. */
export interface Store {
  readonly id: StoreId
  readonly username: string
  readonly displayName: string
  readonly bio: string
  readonly avatarUrl: string
  readonly developerModeEnabled: boolean
  readonly createdBy: 'agent' | 'operator'
  readonly payout: Payout
  /** When a payout wallet was last changed; null while they are those that the store was opened with. */
  readonly payoutChangedAtMs: number | null
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

/** A wallet that may sign in to a store: one store per (chain, address). */
export interface StoreWallet {
  readonly storeId: StoreId
  readonly chain: 'base' | 'solana'
  /** EVM: lower case. Solana: base58 as is. */
  readonly address: string
}

/** An API key as stored: never the key, only its HMAC. */
export interface ApiKey {
  readonly id: string
  readonly storeId: StoreId
  readonly name: string
  readonly keyPrefix: string
  /** HMAC-SHA256 of the full key under the server's secret, hex. */
  readonly keyHash: string
  readonly isActive: boolean
  readonly lastUsedAtMs: number | null
  readonly revokedAtMs: number | null
  readonly createdAtMs: number
}

/** A text that was handed out for a wallet to sign; one use. */
export interface SignInNonce {
  readonly nonce: string
  readonly chain: 'base' | 'solana'
  readonly address: string
  readonly message: string
  readonly expiresAtMs: number
}
