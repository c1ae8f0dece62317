import type { ChainFamily, NetworkId } from '../core/domain/network.ts'
import type { Buyer } from './buyer.ts'
import type { KeptPayments } from './keptPayments.ts'
import type { PayReport } from './payReport.ts'

export const DEFAULT_MAX_USD = '1.00'
export const DEFAULT_TIMEOUT_MS = 30_000
export const DEFAULT_MAX_BODY_BYTES = 1_000_000
export const defaultRetryDelaysMs: readonly number[] = [1_000, 2_000, 4_000]

/** The wallets of a run, one a chain family. */
export type Wallets = Readonly<Partial<Record<ChainFamily, Buyer>>>

/** A price above the cap, as the user is asked about it. */
export interface CapQuestion {
  /** Price and cap in USD, decimal strings. */
  readonly usd: string
  readonly capUsd: string
  readonly amount: string
  readonly symbol: string
  readonly network: string
  readonly payTo: string
  /** The address that is paid for: where redirects ended. */
  readonly url: string
  /** True when the price is at most ten times the cap. */
  readonly isWithinTenfold: boolean
}

/** What {@link payForUrl} needs. */
export interface PayOptions {
  readonly url: string
  /** Default GET. */
  readonly method?: string
  /** Flat list of name, value; added to both calls. */
  readonly headers?: readonly string[]
  readonly body?: Uint8Array
  /**
   * The wallets that may pay, one a chain family, made for this run; or how to get them, asked only when no payment of a
   * former run is open. May throw a {@link import('./buyer.ts').BuyerRefusal}.
   */
  readonly wallets: Wallets | (() => Promise<Wallets>)
  /** Pay on this network only. Default: the first offer that a wallet can pay. */
  readonly network?: NetworkId
  /** Prices above this many USD are asked about. Decimal string; default 1.00. */
  readonly maxUsd?: string
  /** Asked when the price is above the cap; without it such a price is refused. */
  readonly confirm?: (question: CapQuestion, signal: AbortSignal | undefined) => Promise<boolean>
  /** Node to ask about the receipt. Default: the network's public one. */
  readonly rpcUrl?: string
  /** For the whole run, in ms; waiting for `confirm`, or for a vault's owner, not counted. Default 30 s. */
  readonly timeoutMs?: number
  /** Longest wait for the chain after the answer, in ms. Default: what is left of `timeoutMs`. */
  readonly chainWaitMs?: number
  /** Longest answer that is kept, in bytes. Default 1 MB. */
  readonly maxBodyBytes?: number
  /** Send a payment over plain HTTP to a host that is not this machine. */
  readonly allowInsecureHttp?: boolean
  /** Where payments in flight are kept. */
  readonly payments: KeptPayments
  /** Pay anew, though a payment of the same method, address and body is open or another run is making one. */
  readonly again?: boolean
  /** How long to wait before each repetition of the payment, in ms. Default 1 s, 2 s, 4 s. */
  readonly retryDelaysMs?: readonly number[]
  /**
   * Brings a report of a purchase to where it belongs, before its payment is forgotten: while an answer is nowhere, the
   * payment is what gets it again. Called for the outcome `paid`; when it throws, the payment is kept.
   */
  readonly deliver?: (report: PayReport) => Promise<void>
  /** Ends the run; a payment that was sent is kept for `--resume`. */
  readonly signal?: AbortSignal
  /** Hears of every step, in words; may quote the seller. */
  readonly onStep?: (text: string) => void
}
