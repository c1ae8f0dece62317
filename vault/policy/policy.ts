import type { VaultChain } from '../effects/chains.ts'

/** What an agent may spend of one asset; amounts in whole units as decimal strings, exact. */
export interface AssetRule {
  readonly chain: VaultChain
  /** Symbol of a pinned asset, such as `USDC` or `ETH`. */
  readonly symbol: string
  /** Most in one request; above it the request is refused. */
  readonly perTransaction: string
  /** Most in a UTC day, what was approved by hand included; above it the request is refused. */
  readonly perDay: string
  /** Up to here the owner is not asked. `0` asks always. */
  readonly autoApproveUpTo: string
}

/**
 * What an agent may pay to the network of one chain, fees and rent of new accounts together; whole native units as decimal
 * strings. Without one, a chain with a rule for an asset has the defaults, and a chain without any has no room for fees:
 * see {@link import('./rules.ts').feeLimitsOf}.
 */
export interface FeeRule {
  readonly chain: VaultChain
  /** Above it the request is refused. Default: a day's fees, at most the chain's pinned bound. */
  readonly perTransaction?: string
  /** Fees of a UTC day together; above it the request is refused. Default: by what may be spent a day. */
  readonly perDay?: string
  /** Up to here the owner is not asked. Default: the chain's usual fee. */
  readonly autoApproveUpTo?: string
}

/** Hours of the day in which rules may approve. Outside of them the owner is asked, or nothing is done. */
export interface HoursRule {
  /** Minutes since midnight, from 0 up to 1439; `from` after `to` goes over midnight. */
  readonly fromMinute: number
  readonly toMinute: number
  /** IANA name of the zone that the minutes are in, such as `Europe/Vienna`. */
  readonly timeZone: string
  readonly outside: 'ask' | 'deny'
}

/**
 * What the owner allows one agent. Everything that is not named is refused: an agent without rules can sign nothing.
 * The owner writes it, so it is checked once when it is stored ({@link import('./checkPolicy.ts').checkPolicy}).
 */
export interface Policy {
  readonly assets: readonly AssetRule[]
  readonly fees?: readonly FeeRule[]
  /** Addresses that may be paid, by chain; `any` leaves it open. */
  readonly recipients: 'any' | readonly { readonly chain: VaultChain; readonly address: string }[]
  /** What happens to a recipient that is not listed. Default `deny`. */
  readonly otherRecipients?: 'ask' | 'deny'
  /** Rights for others to take money later. `auto` holds them against the same limits as sends. Default `ask`. */
  readonly allowances?: 'auto' | 'ask' | 'deny'
  /** Requests that are not understood completely: never approved by a rule. Default `ask`. */
  readonly opaque?: 'ask' | 'deny'
  /** Messages (sign-in texts): a transaction that moves nothing is none, and is always asked for. Default `ask`. */
  readonly messages?: 'auto' | 'ask' | 'deny'
  readonly hours?: HoursRule
}
