import type { Asset } from '../../../core/domain/asset.ts'
import type { AtomicAmount } from '../../../core/domain/money.ts'
import { familyOf, type NetworkId } from '../../../core/domain/network.ts'
import { TollgateError } from '../../../core/errors/error.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import type { GasBook } from '../../../core/ports/store/gasBook.ts'
import type { CallNode } from '../../../core/rpc/post.ts'
import type { BudgetLimits } from '../budgets.ts'
import { callNode } from '../nodeHttp.ts'

/**
 * How long after `validBefore` a payment counts as expired for good, in seconds of the chain's clock. The time is longer than any
 * reorganization (blocks replaced by others).
 */
export const EXPIRY_MARGIN_SECONDS = 30

export interface EvmSettlerOptions {
  /** CAIP-2 id, such as `eip155:8453`. */
  readonly network: NetworkId
  /** JSON-RPC nodes, the preferred node first. The next node takes over when one fails or serves another chain. */
  readonly rpcUrls: readonly string[]
  /** WebSocket URL of a node. If it is set, the gateway detects transfers as soon as their block is made. Optional. */
  readonly wsUrl?: string | undefined
  /**
   * Keys of the accounts that pay the fees. There is at least one, each 0x and 64 hex digits. Buyers' money never goes to these
   * accounts.
   */
  readonly privateKeys: readonly string[]
  /** Tokens that buyers may pay with. Tokens of other networks are ignored. */
  readonly assets: readonly Asset[]
  /** Highest gas limit of a settlement. Default 600,000, which suffices for a payment that deploys its wallet (ERC-6492). */
  readonly maxGas?: number
  /**
   * Maximum number of payments in one transaction, when several arrive at once and the chain has Multicall3. With 1, each payment
   * has a transaction of its own. Default 32, because larger batches save almost no further gas.
   */
  readonly maxPaymentsPerTransaction?: number
  /** How long a payment waits for others that can share its transaction, in ms. Each arrival restarts the wait. Default 5. */
  readonly batchWindowMs?: number
  /** Highest price of a unit of gas, in wei. Default 2 gwei. */
  readonly maxFeePerGasWei?: bigint
  /** Tip for the block's builder, in wei per unit of gas. Default 0.001 gwei, which is plenty on Base. */
  readonly maxPriorityFeePerGasWei?: bigint
  /** Confirmations a transfer needs, including its own block. Default 1. */
  readonly confirmations?: number
  /** Limit of one request to a node, in ms. Default 10,000. */
  readonly rpcTimeoutMs?: number
  /** How long a call waits for its receipt before it gets `settlement_pending`, in ms. Default 20,000. */
  readonly receiptTimeoutMs?: number
  /**
   * Shortest time before the first poll for a receipt and between two polls, in ms. Default 20. On a slower chain the settler polls
   * at the times at which recent receipts came.
   */
  readonly firstPollMs?: number
  /** Longest time between two polls, in ms. Default 1,000. */
  readonly pollMs?: number
  /** Maximum age of the last known base fee, in ms. Default 10,000, during which the fee can at most double on Base. */
  readonly headMaxAgeMs?: number
  /** Age of the newest block from which `diagnose` reports it as stale, in ms. Default 120,000; `Infinity` for a local chain. */
  readonly staleHeadMs?: number
  /** How long after `validBefore` a payment counts as expired for good, in seconds of the chain's clock. Default 30. */
  readonly expiryMarginSeconds?: number
  /** Wallet factories that may be called (ERC-6492). Default none, because the settling account pays for the call. */
  readonly factories?: readonly string[]
  /** Maximum number of payments in flight, over all payers. The gateway refuses more until some end. Default 1,024. */
  readonly maxInFlight?: number
  /** Maximum number of payments in flight per payer. Default 100. The payer's balance must also cover their total. */
  readonly maxInFlightPerPayer?: number
  /**
   * Failures that a payer may cause per window. A payment in flight counts as a failure until it has settled. Default 100 per
   * 600,000 ms.
   */
  readonly failureBudget?: BudgetLimits['failureBudget']
  /** Highest cost of one store's settlements per day (UTC), in wei. Default 0.05 ether. */
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
  /**
   * How long storing a signed attempt may take, in ms. After that the attempt is not sent, and an empty transaction uses its nonce.
   * Default 5,000.
   */
  readonly storeTimeoutMs?: number
  /**
   * How long transactions may wait behind unknown nonces before empty transactions fill these nonces, in ms. Unknown nonces arise
   * when a reorganization undoes the transactions of a former process. Within this time recovery sends their payments again, and
   * most authorizations expire. If only nodes report the nonces as used, the wait is a twentieth. Default 900,000.
   */
  readonly strandedMs?: number
  /**
   * How long the settler does not sign after another program (such as an installation with another database) has signed with the
   * key, in ms. A random part of up to half of it is added. 0 turns the check off. Default 60,000.
   */
  readonly sharedKeyMs?: number
  /** How nodes are called. Default: over HTTP. */
  readonly sendRequest?: CallNode
  readonly clock?: Clock
  readonly log?: Log
}

/**
 * Fills in the defaults.
 *
 * @throws {TollgateError} `VALIDATION_ERROR` for options that could never work; the message never contains the key
 */
export function readOptions(options: EvmSettlerOptions): Required<EvmSettlerOptions> {
  const refuse = (message: string): never => {
    throw new TollgateError('VALIDATION_ERROR', message)
  }
  if (familyOf(options.network) !== 'eip155') {
    refuse(`Expected an EVM network such as eip155:8453, got ${JSON.stringify(options.network)}.`)
  }
  const { privateKeys } = options
  if (privateKeys.length === 0) refuse(`Expected at least one settling key for ${options.network}.`)
  for (const key of privateKeys) {
    if (!/^0x[0-9a-fA-F]{64}$/.test(key))
      refuse(`Expected each settling key of ${options.network} to be 0x and 64 hex digits.`)
  }
  if (new Set(privateKeys.map((key) => key.toLowerCase())).size < privateKeys.length)
    refuse(`Expected different settling keys for ${options.network}, but one key is given twice.`)
  if (options.rpcUrls.length === 0) refuse(`Expected at least one RPC URL for ${options.network}.`)
  // A WebSocket URL cannot have a fragment.
  if (options.wsUrl !== undefined && !(/^wss?:[^#]*$/.test(options.wsUrl) && URL.canParse(options.wsUrl))) {
    refuse(`Expected wsUrl of ${options.network} to begin with ws:// or wss://, without a fragment (#).`)
  }
  return {
    wsUrl: undefined,
    maxGas: 600_000,
    maxPaymentsPerTransaction: 32,
    batchWindowMs: 5,
    maxFeePerGasWei: 2_000_000_000n,
    maxPriorityFeePerGasWei: 1_000_000n,
    confirmations: 1,
    rpcTimeoutMs: 10_000,
    receiptTimeoutMs: 20_000,
    firstPollMs: 20,
    pollMs: 1_000,
    headMaxAgeMs: 10_000,
    staleHeadMs: 120_000,
    expiryMarginSeconds: EXPIRY_MARGIN_SECONDS,
    factories: [],
    maxInFlight: 1_024,
    maxInFlightPerPayer: 100,
    failureBudget: { failures: 100, windowMs: 600_000 },
    maxGasPerStoreAndDay: 50_000_000_000_000_000n,
    minPriceAtomic: 0n,
    gasBook: undefined,
    needsStart: false,
    storeTimeoutMs: 5_000,
    strandedMs: 900_000,
    sharedKeyMs: 60_000,
    sendRequest: callNode,
    clock: systemClock,
    log: silentLog,
    ...options,
  }
}
