import type { Access } from './access.ts'
import type { NetworkId } from './network.ts'
import { isByUse, type Pricing } from './pricing.ts'

export type LinkId = string
export type StoreId = string

/** `wrap`: JSON responses become `{"data":…,"_svc":…}`. `raw`: buyers get the seller's bytes, and the ids are in headers. */
export type ResponseMode = 'wrap' | 'raw'
/**
 * When the buyer is charged. `after` is the default, and means after the response of the seller's API. `before` suits streams and
 * unbuffered responses.
 */
export type SettleMode = 'after' | 'before'

/**
 * `api`: the gateway forwards calls to the link's url. `standard`: the link has no API, and the gateway redirects buyers to the url
 * (marketplace interface, section 2).
 */
export type LinkType = 'api' | 'standard'

/**
 * A seller's link. It says what is called, at what price, and which store is paid. A link is never changed in place, because each
 * change makes a new version.
 */
export interface Link {
  readonly id: LinkId
  readonly storeId: StoreId
  readonly url: string
  readonly title: string
  readonly description: string
  readonly slug: string
  /**
   * Price in USDC as a decimal string. A link with the price `0` is free. If the price depends on the request, this is the lowest
   * price.
   */
  readonly price: string
  /** The highest price, if the price depends on the request. Null if every call costs `price`. */
  readonly priceMax: string | null
  /** How the price depends on the request. Null if every call costs `price`. */
  readonly pricing: Pricing | null
  readonly isPublic: boolean
  readonly isActive: boolean
  readonly linkType: LinkType
  readonly isStealth: boolean
  /** 128 random bits, which are the only address of a stealth link. Null for other links. */
  readonly privateSlug: string | null
  readonly webhookUrl: string | null
  /** Methods that callers may use. If the list is empty, callers may use every method. */
  readonly methods: readonly string[]
  readonly inputSchema: unknown
  readonly outputExample: unknown
  readonly tags: readonly string[]
  readonly iconUrl: string | null
  readonly responseMode: ResponseMode
  readonly settle: SettleMode
  /** Who may call the link by a wallet's signature instead of a payment. Null if no caller may. */
  readonly access: Access | null
  /**
   * Headers that the gateway adds to every upstream request, such as the seller's credential. The database stores them encrypted,
   * and no page shows them.
   */
  readonly upstreamHeadersSealed: string | null
  /** The document from which the link was imported. Null if the link was created individually. */
  readonly origin: LinkOrigin | null
  readonly suspension: LinkSuspension | null
  readonly createdAtMs: number
  readonly updatedAtMs: number
  /** Grows with every change. A compiled pipeline belongs to one version. */
  readonly version: number
}

/** Values of a link's optional fields if they are left out or null. */
export const linkDefaults = {
  description: '',
  price: '0',
  priceMax: null,
  pricing: null,
  linkType: 'api',
  isPublic: false,
  isStealth: false,
  privateSlug: null,
  webhookUrl: null,
  methods: [],
  inputSchema: null,
  outputExample: null,
  tags: [],
  iconUrl: null,
  responseMode: 'wrap',
  settle: 'after',
  access: null,
  upstreamHeadersSealed: null,
  origin: null,
} as const satisfies Partial<Link>

export const linkStates = ['public', 'unlisted', 'stealth', 'suspended'] as const
/**
 * Which buyers can use an active link. `public`: all buyers. `unlisted`: buyers with its address. `stealth`: buyers with its secret
 * address. `suspended`: none.
 */
export type LinkState = (typeof linkStates)[number]

/** The operation of an imported document from which a link was created. The next import finds the link by it. */
export interface LinkOrigin {
  /** The seller's name for the document. */
  readonly document: string
  /**
   * The operation's key, which stays the same when the document changes. It is unique among the active links of a store and
   * document.
   */
  readonly key: string
  /** The operation, such as `POST /render`. `*` stands for the whole API. */
  readonly operation: string
}

export interface LinkSuspension {
  readonly sinceMs: number
  readonly reason: string
  readonly cooldownUntilMs: number
  readonly permanent: boolean
}

/** A link with the fields of its store that the gateway needs. The gateway reads it once per link version. */
export interface ServedLink extends Link {
  readonly username: string
  /** The seller's wallets. The 402 has no offer on a network family without a wallet. */
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

/** True if buyers get the response of a paid call as it arrives. The gateway then wraps only JSON. */
export const isStreamed = ({ settle, pricing }: Pick<Link, 'settle' | 'pricing'>): boolean =>
  settle === 'before' || isChargedAtEnd(pricing)

/** True if buyers are charged at the end of a response that they get as it arrives. */
export const isChargedAtEnd = (pricing: Pricing | null): boolean =>
  pricing !== null && isByUse(pricing) && pricing.stream

/** True if a call to the link costs money. Prices such as `0` and `0.0` are free. */
export const isPaid = (link: Pick<Link, 'price'>): boolean => /[1-9]/.test(link.price)
