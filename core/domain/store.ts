import type { Payout, StoreId } from './link.ts'

/** A seller's account. */
export interface Store {
  readonly id: StoreId
  readonly username: string
  readonly displayName: string
  readonly bio: string
  readonly avatarUrl: string
  /** Social links, in the order in which pages show them. */
  readonly socials: readonly Social[]
  readonly developerModeEnabled: boolean
  readonly createdBy: 'agent' | 'operator'
  readonly payout: Payout
  /** When a payout wallet was last changed. Null if the wallets are still those of the store's creation. */
  readonly payoutChangedAtMs: number | null
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

/** A link to one of the seller's pages elsewhere. */
export interface Social {
  readonly type: SocialType
  readonly url: string
  /** Position of the link. Links with equal positions keep the order in which they were sent. */
  readonly displayOrder: number
  readonly isVisible: boolean
}

export const socialTypes = [
  ...(['x', 'github', 'telegram', 'web3_bio', 'website', 'youtube'] as const),
  ...(['linkedin', 'discord', 'facebook', 'tiktok', 'instagram'] as const),
] as const
export type SocialType = (typeof socialTypes)[number]

/** A wallet that may sign in to a store. A wallet on a chain belongs to only one store. */
export interface StoreWallet {
  readonly storeId: StoreId
  readonly chain: 'base' | 'solana'
  /** The address, in lower case on EVM and in base58 on Solana. */
  readonly address: string
}

/** An API key as the database stores it. It contains only the key's HMAC, never the key. */
export interface ApiKey {
  readonly id: string
  readonly storeId: StoreId
  readonly name: string
  readonly keyPrefix: string
  /** HMAC-SHA256 of the full key under the server's secret, in hex. */
  readonly keyHash: string
  readonly isActive: boolean
  readonly lastUsedAtMs: number | null
  readonly revokedAtMs: number | null
  readonly createdAtMs: number
}

/** A text that a wallet has to sign. It can be used once. */
export interface SignInNonce {
  readonly nonce: string
  readonly chain: 'base' | 'solana'
  readonly address: string
  readonly message: string
  readonly expiresAtMs: number
}
