import type { Asset } from '../../../core/domain/asset.ts'
import type { AtomicAmount } from '../../../core/domain/money.ts'
import { familyOf, type NetworkId } from '../../../core/domain/network.ts'
import { TollgateError } from '../../../core/errors/error.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import type { GasBook } from '../../../core/ports/store/gasBook.ts'
import type { AskNode } from '../../../core/rpc/post.ts'
import { askNode } from '../askNode.ts'
import type { BudgetLimits } from '../budgets.ts'

export interface EvmSettlerOptions {
  /** CAIP-2 id, `eip155:8453`. */
  readonly network: NetworkId
  /** JSON-RPC nodes, the preferred one first; the next takes over when it fails or serves another chain. */
  readonly rpcUrls: readonly string[]
  /** WebSocket URL of a node: transfers are noticed when their block is made. Not needed. */
  readonly wsUrl?: string | undefined
  /** Keys of the accounts that pay the fees, at least one: 0x and 64 hex digits. They never hold buyers' money. */
  readonly privateKeys: readonly string[]
  /** Tokens that may be paid in; those of other networks are left out. */
  readonly assets: readonly Asset[]
  /** Most gas that one settlement may use. Default 600,000: enough for a payment that makes its wallet (ERC-6492). */
  readonly maxGas?: number
  /**
   * Payments that one transaction may settle where several come at once, and the chain has Multicall3; 1: each has a transaction of
   * its own. Default 32, beyond which next to no gas is saved.
   */
  readonly maxPaymentsPerTransaction?: number
  /** How long a payment waits for others that it could be settled with, in ms; each that comes begins it anew. Default 5. */
  readonly gatherMs?: number
  /** Most that a unit of gas may cost, in wei. Default 2 gwei. */
  readonly maxFeePerGasWei?: bigint
  /** Tip for the block's builder, in wei a unit of gas. Default 0.001 gwei, ample on Base. */
  readonly maxPriorityFeePerGasWei?: bigint
  /** Blocks, that of the transfer included, after which it counts. Default 1. */
  readonly confirmations?: number
  /** Limit of one request to a node, in ms. Default 10,000. */
  readonly rpcTimeoutMs?: number
  /** How long a call waits for its receipt before it is answered `settlement_pending`, in ms. Default 20,000. */
  readonly receiptTimeoutMs?: number
  /**
   * Shortest time before the first look for a receipt and between two looks, in ms. Default 20. On a chain that takes
   * longer the looks follow what it took lately.
   */
  readonly firstPollMs?: number
  /** Longest time between two looks, in ms. Default 1,000. */
  readonly pollMs?: number
  /** How old the known base fee may be, in ms. Default 10,000, during which it can at most double on Base. */
  readonly headMaxAgeMs?: number
  /** A newest block older than this is reported by `diagnose`, in ms. Default 120,000; `Infinity` for a local chain. */
  readonly staleHeadMs?: number
  /** Chain time after `validBefore` from which a payment counts as expired for good, in s. Default 30: a reorganisation is shorter. */
  readonly expiryMarginSeconds?: number
  /** Wallet factories that may be called (ERC-6492). Default none: the call is paid by this account. */
  readonly factories?: readonly string[]
  /** Payments on their way at once, of all payers; more are refused for the moment. Default 1,024. */
  readonly maxInFlight?: number
  /** Of one payer. Default 100. Their sum may not be more than the payer has either. */
  readonly maxInFlightPerPayer?: number
  /**
   * Failures that one payer may cause in any window; a payment on its way counts as one until it has settled. Default 100
   * in 600,000 ms.
   */
  readonly failureBudget?: BudgetLimits['failureBudget']
  /** Most that the settlements of one store may cost in a day (UTC), in wei. Default 0.05 ether. */
  readonly maxGasPerStoreAndDay?: bigint
  /** Lowest price of a link that is offered here, in millionths of a dollar. Default 0. */
  readonly minPriceAtomic?: AtomicAmount
  /** Keeps the gas of the day over restarts. */
  readonly gasBook?: GasBook | undefined
  /** True where `start` is called before the first payment: until it has succeeded, payments are refused. Default false. */
  readonly needsStart?: boolean
  /** How long a signed attempt may take to be stored, in ms; then nothing is sent, and its account nonce is filled. Default 5,000. */
  readonly storeTimeoutMs?: number
  /**
   * How long transactions may wait behind account nonces that nobody here knows, in ms, before these are filled: a reorganisation took
   * back what a former process had sent. By then the recovery has sent again what was a payment, and its authorisation has
   * mostly ended. A twentieth of it where only a node has ever said that these numbers are used. Default 900,000.
   */
  readonly strandedMs?: number
  /**
   * How long nothing is settled after somebody else has signed with the key, in ms: an installation with another database. By
   * chance up to half as long again. 0 to look away. Default 60,000.
   */
  readonly sharedKeyMs?: number
  /** How nodes are asked. Default: over HTTP. */
  readonly ask?: AskNode
  readonly clock?: Clock
  readonly log?: Log
}

/**
 * Fills in the defaults.
 *
 * @throws {TollgateError} `VALIDATION_ERROR` for what could never work; the message never repeats the key.
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
    refuse(`A settling key of ${options.network} is given twice.`)
  if (options.rpcUrls.length === 0) refuse(`Expected at least one RPC URL for ${options.network}.`)
  // A WebSocket can't be made for a URL with a fragment.
  if (options.wsUrl !== undefined && !(/^wss?:[^#]*$/.test(options.wsUrl) && URL.canParse(options.wsUrl))) {
    refuse(`Expected wsUrl of ${options.network} to begin with ws:// or wss://, without a fragment (#).`)
  }
  return {
    wsUrl: undefined,
    maxGas: 600_000,
    maxPaymentsPerTransaction: 32,
    gatherMs: 5,
    maxFeePerGasWei: 2_000_000_000n,
    maxPriorityFeePerGasWei: 1_000_000n,
    confirmations: 1,
    rpcTimeoutMs: 10_000,
    receiptTimeoutMs: 20_000,
    firstPollMs: 20,
    pollMs: 1_000,
    headMaxAgeMs: 10_000,
    staleHeadMs: 120_000,
    expiryMarginSeconds: 30,
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
    ask: askNode,
    clock: systemClock,
    log: silentLog,
    ...options,
  }
}
