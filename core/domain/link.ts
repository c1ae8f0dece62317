import type { NetworkId } from './network.ts'

export type LinkId = string
export type StoreId = string

/** `wrap`: JSON answers become `{"data":…,"_svc":…}`. `raw`: the seller's bytes, with the ids in headers. */
export type ResponseMode = 'wrap' | 'raw'
/** When the buyer is charged: `after` the seller answered (default), or `before` (streams, unbuffered answers). */
export type SettleMode = 'after' | 'before'

/**
 * `api`: calls are proxied to the link's url. `standard`: there is no API behind it; whoever has paid is led to the url
 * (marketplace interface, section 2).
 */
export type LinkType = 'api' | 'standard'

/** A seller's API link: what is proxied, at what price, and who is paid. Immutable; a change makes a new version. */
export interface Link {
  readonly id: LinkId
  readonly storeId: StoreId
  readonly url: string
  readonly title: string
  readonly description: string
  readonly slug: string
  /** Decimal string in USDC; `0` is a free link. */
  readonly price: string
  readonly isPublic: boolean
  readonly isActive: boolean
  readonly linkType: LinkType
  readonly isStealth: boolean
  /** 128 random bits, the only address of a stealth link; null otherwise. */
  readonly privateSlug: string | null
  readonly webhookUrl: string | null
  /** Methods that callers may use; empty means every method. */
  readonly methods: readonly string[]
  readonly inputSchema: unknown
  readonly outputExample: unknown
  readonly tags: readonly string[]
  readonly iconUrl: string | null
  readonly responseMode: ResponseMode
  readonly settle: SettleMode
  /** Headers added to every upstream request (the seller's own credential): sealed at rest, never shown. */
  readonly upstreamHeadersSealed: string | null
  /** What it was imported from; null for links that were made one by one. */
  readonly origin: LinkOrigin | null
  readonly suspension: LinkSuspension | null
  readonly createdAtMs: number
  readonly updatedAtMs: number
  /** Grows with every change; a compiled program belongs to one version. */
  readonly version: number
}

export const linkStates = ['public', 'unlisted', 'stealth', 'suspended'] as const
/** Who can buy an active link: everybody, whoever knows its address, whoever knows its secret one, nobody. */
export type LinkState = (typeof linkStates)[number]

/** The operation of an imported document that a link was made of: by it the next import knows the link again. */
export interface LinkOrigin {
  /** The seller's name for the document. */
  readonly document: string
  /** What stays when the document changes; one active link of a store and document has it. */
  readonly key: string
  /** `POST /render`; `*` for the whole API. */
  readonly operation: string
}

export interface LinkSuspension {
  readonly sinceMs: number
  readonly reason: string
  readonly cooldownUntilMs: number
  readonly permanent: boolean
}

/** What the gateway needs of a link, joined with its store: one read per link version. */
export interface ServedLink extends Link {
  readonly username: string
  /** The seller's wallets. A network family without a wallet is not offered. */
  readonly payout: Payout
}

export interface Payout {
  /** Checksummed 0x address, or null. */
  readonly base: string | null
  /** Base58 address, or null. */
  readonly solana: string | null
}

export const payoutFor = (payout: Payout, network: NetworkId): string | null =>
  network.startsWith('solana:') ? payout.solana : payout.base

export function linkStateOf({ suspension, isStealth, isPublic }: Link): LinkState {
  if (suspension !== null) return 'suspended'
  if (isStealth) return 'stealth'
  return isPublic ? 'public' : 'unlisted'
}

/** True when a call to the link costs money: `0`, `0.0` … are free. */
export const isPaid = (link: Pick<Link, 'price'>): boolean => /[1-9]/.test(link.price)
