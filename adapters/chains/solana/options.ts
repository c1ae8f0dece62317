import type { Asset } from '../../../core/domain/asset.ts'
import type { AtomicAmount } from '../../../core/domain/money.ts'
import { familyOf, type NetworkId } from '../../../core/domain/network.ts'
import { TollgateError } from '../../../core/errors/error.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import type { GasBook } from '../../../core/ports/store/gasBook.ts'
import type { BudgetLimits } from '../budgets.ts'
import type { Commitment } from './check/simulate.ts'
import { DEFAULT_MAX_COMPUTE_UNITS, DEFAULT_MAX_MICRO_LAMPORTS_PER_UNIT } from './check/solanaRules.ts'

export interface SolanaSettlerOptions {
  /** CAIP-2 id, `solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1`. */
  readonly network: NetworkId
  /** JSON-RPC nodes, the preferred one first; the next takes over when it fails or serves another cluster. */
  readonly rpcUrls: readonly string[]
  /** WebSocket of a node: settlements are noticed sooner. Not needed. */
  readonly wsUrl?: string
  /**
   * Keys of the accounts that pay the fees, at least one: 64 bytes as base58 or as a JSON array. They never hold buyers' money.
   */
  readonly privateKeys: readonly string[]
  /** Tokens that may be paid in; those of other networks are left out. */
  readonly assets: readonly Asset[]
  /** Most compute units that a payment may ask for. Default 400,000. */
  readonly maxComputeUnits?: number
  /** Highest price of a compute unit, in millionths of a lamport. Default 200,000: with the limit, 80,000 lamports. */
  readonly maxMicroLamportsPerUnit?: number
  /** When a transfer counts. `confirmed` (default): two thirds of the stake voted for its block. */
  readonly commitment?: Commitment
  /** Limit of one request to a node, in ms. Default 10,000. */
  readonly rpcTimeoutMs?: number
  /** How long a call waits for its transfer before it is answered `settlement_pending`, in ms. Default 30,000. */
  readonly confirmTimeoutMs?: number
  /** Least time between questions whether transactions have landed, and before the first one, in ms. Default 10. */
  readonly firstPollMs?: number
  /** Most time between these questions; they thin out to it, in ms. Default 1,000. */
  readonly pollMs?: number
  /** Before the first question while the WebSocket is open, in ms. Default 2,000. */
  readonly pollMsWithSocket?: number
  /** How often the same bytes are sent again while their outcome is awaited, in ms. Default 4,000. */
  readonly rebroadcastMs?: number
  /** After this time since `verify`, the node simulates once more before it takes the transaction, in ms. Default 5,000. */
  readonly preflightAfterMs?: number
  /** How often sellers without an account of the token are looked at again, in ms. Default 20,000. */
  readonly payeeAgainMs?: number
  /** Payments on their way at once, of all payers; more are refused for the moment. Default 1,024. */
  readonly maxInFlight?: number
  /** Of one payer. Default 100. Their sum may not be more than the payer has either. */
  readonly maxInFlightPerPayer?: number
  /**
   * Failures that one payer may cause in any window; a payment on its way counts as one until it has settled. Default 100 in
   * 600,000 ms.
   */
  readonly failureBudget?: BudgetLimits['failureBudget']
  /** Most that the settlements of one store may cost in a day (UTC), in lamports. Default 1 SOL. */
  readonly maxGasPerStoreAndDay?: bigint
  /** Lowest price of a link that is offered here, in millionths of a dollar. Default 0. */
  readonly minPriceAtomic?: AtomicAmount
  /** Keeps the gas of the day over restarts. */
  readonly gasBook?: GasBook | undefined
  /** True where `start` is called before the first payment: until it has succeeded, payments are refused. Default false. */
  readonly needsStart?: boolean
  readonly clock?: Clock
  readonly log?: Log
}

/** The options with their defaults. */
export type ReadOptions = Required<Omit<SolanaSettlerOptions, 'wsUrl'>> & {
  readonly wsUrl: string | undefined
}

/**
 * Fills in the defaults.
 *
 * @throws {TollgateError} `VALIDATION_ERROR` for what could never work
 */
export function readOptions(options: SolanaSettlerOptions): ReadOptions {
  const { network } = options
  if (familyOf(network) !== 'solana') {
    throw new TollgateError('VALIDATION_ERROR', `Expected a Solana network, got ${JSON.stringify(network)}.`)
  }
  if (options.rpcUrls.length === 0) {
    throw new TollgateError('VALIDATION_ERROR', `Expected at least one RPC URL for ${network}.`)
  }
  if (options.privateKeys.length === 0) {
    throw new TollgateError('VALIDATION_ERROR', `Expected at least one fee payer key for ${network}.`)
  }
  options.rpcUrls.forEach((url) => {
    assertUrl(url, ['http:', 'https:'], `an RPC URL of ${network}`)
  })
  if (options.wsUrl !== undefined) assertUrl(options.wsUrl, ['ws:', 'wss:'], `wsUrl of ${network}`)
  return {
    maxComputeUnits: DEFAULT_MAX_COMPUTE_UNITS,
    maxMicroLamportsPerUnit: DEFAULT_MAX_MICRO_LAMPORTS_PER_UNIT,
    commitment: 'confirmed',
    rpcTimeoutMs: 10_000,
    confirmTimeoutMs: 30_000,
    firstPollMs: 10,
    pollMs: 1_000,
    pollMsWithSocket: 2_000,
    rebroadcastMs: 4_000,
    preflightAfterMs: 5_000,
    payeeAgainMs: 20_000,
    maxInFlight: 1_024,
    maxInFlightPerPayer: 100,
    failureBudget: { failures: 100, windowMs: 600_000 },
    maxGasPerStoreAndDay: 1_000_000_000n,
    minPriceAtomic: 0n,
    gasBook: undefined,
    needsStart: false,
    clock: systemClock,
    log: silentLog,
    wsUrl: undefined,
    ...options,
    assets: options.assets.filter((asset) => asset.network === network),
  }
}

/** The URL itself is not repeated: it may hold a key. */
function assertUrl(url: string, protocols: readonly string[], what: string): void {
  if (URL.canParse(url) && protocols.includes(new URL(url).protocol)) return
  throw new TollgateError('VALIDATION_ERROR', `Expected ${what} to begin with ${protocols.join('// or ')}//.`)
}
