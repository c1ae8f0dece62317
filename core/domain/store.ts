import type { Payout, StoreId } from './link.ts'

/** A seller's account. */
export interface Store {
  readonly id: StoreId
  readonly username: string
  readonly displayName: string
  readonly bio: string
  readonly avatarUrl: string
  /** In the order in which they are shown. */
  readonly socials: readonly Social[]
  readonly developerModeEnabled: boolean
  readonly createdBy: 'agent' | 'operator'
  readonly payout: Payout
  /** When a payout wallet was last changed; null while they are those that the store was opened with. */
  readonly payoutChangedAtMs: number | null
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

/** A page of the seller's elsewhere. */
export interface Social {
  readonly type: SocialType
  readonly url: string
  /** Those of the same number stand in the order in which they were sent. */
  readonly displayOrder: number
  readonly isVisible: boolean
}

export const socialTypes = [
  ...(['x', 'github', 'telegram', 'web3_bio', 'website', 'youtube'] as const),
  ...(['linkedin', 'discord', 'facebook', 'tiktok', 'instagram'] as const),
] as const
export type SocialType = (typeof socialTypes)[number]

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
