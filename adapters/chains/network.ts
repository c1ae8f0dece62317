import type { FacilitatorChoice, NetworkConfig } from '../../core/config/schema.ts'
import type { Asset } from '../../core/domain/asset.ts'
import { parseAmount } from '../../core/domain/money.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import type { ChannelChain } from '../../core/ports/chains/channelChain.ts'
import type { PastSettlements } from '../../core/ports/chains/pastSettlements.ts'
import type { Payers } from '../../core/ports/chains/payers.ts'
import type { RefundProofs } from '../../core/ports/chains/refundProofs.ts'
import type { Settler } from '../../core/ports/chains/settler.ts'
import type { TransferProofs } from '../../core/ports/chains/transferProofs.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { GasBook } from '../../core/ports/store/gasBook.ts'

/** Timeout of one request to a node for a proof, in ms. Sellers' clients give up after 15 s, and a proof takes two requests. */
export const PROOF_RPC_TIMEOUT_MS = 5_000
/**
 * Timeout of one request of a search through days of blocks, in ms. No client waits for the search, and a node may take long for
 * one response.
 */
export const SEARCH_RPC_TIMEOUT_MS = 20_000
/** The window in which the failures of one payer are counted, in ms. */
const FAILURE_WINDOW_MS = 600_000

/** A settler with keys of this gateway. */
export type Embedded = Extract<FacilitatorChoice, { readonly kind: 'embedded' }>

/**
 * One chain of the configuration. Each part is loaded and opened at its first use, because the libraries of one chain take a third
 * of an idle gateway's memory. All parts that only read share one client of the nodes. The settler has its own client, because a
 * search can make a node time out, and payments should not move to another node then.
 */
export interface Network {
  settler(choice: Embedded): Promise<Settler>
  transferProofs(): Promise<TransferProofs>
  refundProofs(): Promise<RefundProofs>
  pastSettlements(): Promise<PastSettlements>
  /**
   * Payment channels, whose transactions the settler sends. Undefined on chains without the contract.
   *
   * @param authorizerKeys see `channels.authorizerKeys` of the configuration
   */
  channelChain?(authorizerKeys: readonly string[], settler: Pick<Settler, 'transact'>): Promise<ChannelChain>
  /** Undefined on chains whose wallets ask a node themselves. */
  payers?(): Promise<Payers>
}

export interface NetworkOptions {
  readonly network: NetworkId
  readonly config: NetworkConfig
  /** The assets of this network. */
  readonly assets: readonly Asset[]
  readonly clock: Clock
  readonly log: Log
  readonly gasBook?: GasBook | undefined
}

/** The payer limits of every settler, from the operator's configuration. */
export const payerLimitsOf = (choice: FacilitatorChoice) => ({
  maxInFlight: choice.maxInFlight,
  maxInFlightPerPayer: choice.maxInFlightPerPayer,
  failureBudget: { failures: choice.maxFailuresPerPayer, windowMs: FAILURE_WINDOW_MS },
})

/** Options of every settler with keys of its own. @param decimals of the network's coin */
export const settlerOptionsOf = (
  { network, config, assets, clock, log, gasBook }: NetworkOptions,
  choice: Embedded,
  decimals: number,
) => ({
  network,
  assets,
  clock,
  log,
  gasBook,
  rpcUrls: config.rpcUrls,
  firstPollMs: config.firstPollMs,
  pollMs: config.pollMs,
  ...payerLimitsOf(choice),
  needsStart: true,
  privateKeys: choice.privateKeys,
  minPriceAtomic: parseAmount(choice.minPrice, 6),
  ...(choice.maxGasPerStoreAndDay !== undefined && {
    maxGasPerStoreAndDay: BigInt(Math.round(choice.maxGasPerStoreAndDay * 1e9)) * 10n ** BigInt(decimals - 9),
  }),
})

/** Returns a function that opens a part at its first call and returns the same part afterwards. */
export function once<T>(open: () => Promise<T>): () => Promise<T> {
  let opened: Promise<T> | undefined
  return () => (opened ??= open())
}
