import type { Asset } from '../../../core/domain/asset.ts'
import type { AtomicAmount } from '../../../core/domain/money.ts'
import { familyOf, type NetworkId } from '../../../core/domain/network.ts'
import { TollgateError } from '../../../core/errors/error.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import type { GasBook } from '../../../core/ports/store/gasBook.ts'
import type { BudgetLimits } from '../budgets.ts'
import { DEFAULT_MAX_COMPUTE_UNITS, DEFAULT_MAX_MICRO_LAMPORTS_PER_UNIT } from './check/rules.ts'
import type { Commitment } from './rpc/nodes.ts'

export interface SolanaSettlerOptions {
  /** CAIP-2 id, such as `solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1`. */
  readonly network: NetworkId
  /** JSON-RPC nodes, the preferred node first. The next node takes over when one fails or serves another cluster. */
  readonly rpcUrls: readonly string[]
  /** WebSocket URL of a node. If it is set, the gateway detects settlements sooner. Optional. */
  readonly wsUrl?: string
  /**
   * Keys of the accounts that pay the fees. There is at least one, each 64 bytes as base58 or as a JSON array. Buyers' money never
   * goes to these accounts.
   */
  readonly privateKeys: readonly string[]
  /** Tokens that buyers may pay with. Tokens of other networks are ignored. */
  readonly assets: readonly Asset[]
  /** Maximum number of compute units that a payment may request. Default 400,000. */
  readonly maxComputeUnits?: number
  /**
   * Highest price of a compute unit, in millionths of a lamport. Default 200,000, which is 80,000 lamports with the default limit
   * of units.
   */
  readonly maxMicroLamportsPerUnit?: number
  /** The commitment at which a transfer counts. With `confirmed` (default), two thirds of the stake voted for its block. */
  readonly commitment?: Commitment
  /** Timeout of one request to a node, in ms. Default 10,000. */
  readonly rpcTimeoutMs?: number
  /** How long a call waits for its transfer before it gets `settlement_pending`, in ms. Default 30,000. */
  readonly confirmTimeoutMs?: number
  /** Shortest time between polls for transactions, and before the first poll, in ms. Default 10. */
  readonly firstPollMs?: number
  /** Longest time between polls, in ms. The pauses grow up to it. Default 1,000. */
  readonly pollMs?: number
  /** Time before the first poll while the WebSocket is open, in ms. Default 2,000. */
  readonly pollMsWithSocket?: number
  /** How often the same bytes are sent again while a call waits for their outcome, in ms. Default 4,000. */
  readonly rebroadcastMs?: number
  /** How long after `verify` the node has to simulate again before it accepts the transaction, in ms. Default 5,000. */
  readonly preflightAfterMs?: number
  /** How often payees without an account of the token are rechecked, in ms. Default 20,000. */
  readonly payeeAgainMs?: number
  /** Maximum number of payments in flight, over all payers. The gateway refuses more until some end. Default 1,024. */
  readonly maxInFlight?: number
  /** Maximum number of payments in flight per payer. Default 100. The payer's balance must also cover their total. */
  readonly maxInFlightPerPayer?: number
  /**
   * Failures that a payer may cause per window. A payment in flight counts as a failure until it has settled. Default 100 per
   * 600,000 ms.
   */
  readonly failureBudget?: BudgetLimits['failureBudget']
  /** Highest cost of one store's settlements per day (UTC), in lamports. Default 1 SOL. */
  readonly maxGasPerStoreAndDay?: bigint
  /** Lowest link price for which this network is offered, in millionths of a dollar. Default 0. */
  readonly minPriceAtomic?: AtomicAmount
  /** Stores the day's gas costs, so that a restart does not reset them. */
  readonly gasBook?: GasBook | undefined
  /**
   * Whether the caller runs `start` before the first payment. If so, the settler refuses payments until `start` has succeeded.
   * Default false.
   */
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
 * @throws {TollgateError} `VALIDATION_ERROR` for options that could never work
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

/** The message does not repeat the URL, because the URL may contain a key. */
function assertUrl(url: string, protocols: readonly string[], what: string): void {
  if (URL.canParse(url) && protocols.includes(new URL(url).protocol)) return
  throw new TollgateError('VALIDATION_ERROR', `Expected ${what} to begin with ${protocols.join('// or ')}//.`)
}
