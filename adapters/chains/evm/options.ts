import type { Asset } from '../../../core/domain/asset.ts'
import { familyOf, type NetworkId } from '../../../core/domain/network.ts'
import { TollgateError } from '../../../core/errors/error.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'

export interface EvmSettlerOptions {
  /** CAIP-2 id, `eip155:8453`. */
  readonly network: NetworkId
  /** JSON-RPC nodes, the preferred one first; the next takes over when it fails or serves another chain. */
  readonly rpcUrls: readonly string[]
  /** WebSocket URL of a node: transfers are noticed when their block is made. Not needed. */
  readonly wsUrl?: string | undefined
  /** Key of the account that pays the fees: 0x and 64 hex digits. It never holds buyers' money. */
  readonly privateKey: string
  /** Tokens that may be paid in; those of other networks are left out. */
  readonly assets: readonly Asset[]
  /** Most gas that one settlement may use. Default 300,000. */
  readonly maxGas?: number
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
  /**
   * How often the whole of an open payment is looked up (receipt, events, expiry, and its bytes sent again), in ms.
   * Default 15,000. Asked about more often, only its nonce is read: one call.
   */
  readonly lookAgainMs?: number
  /** How old the known base fee may be, in ms. Default 10,000, during which it can at most double on Base. */
  readonly headMaxAgeMs?: number
  /** A newest block older than this is reported by `diagnose`, in ms. Default 120,000; `Infinity` for a local chain. */
  readonly staleHeadMs?: number
  /** Chain time after `validBefore` from which a payment counts as expired for good, in s. Default 30: a reorganisation is shorter. */
  readonly expiryMarginSeconds?: number
  /** Wallet factories that may be called (ERC-6492). Default none: the call is paid by this account. */
  readonly factories?: readonly string[]
  /** Payments on their way at once; more are refused for the moment. Default 256. */
  readonly maxInFlight?: number
  /** Failures on chain that one payer may cause in a window. Default 10 in 60,000 ms. */
  readonly failureBudget?: { readonly failures: number; readonly windowMs: number }
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
  if (!/^0x[0-9a-fA-F]{64}$/.test(options.privateKey)) {
    refuse(`Expected the settling key of ${options.network} to be 0x and 64 hex digits.`)
  }
  if (options.rpcUrls.length === 0) refuse(`Expected at least one RPC URL for ${options.network}.`)
  // A WebSocket can't be made for a URL with a fragment.
  if (options.wsUrl !== undefined && !(/^wss?:[^#]*$/.test(options.wsUrl) && URL.canParse(options.wsUrl))) {
    refuse(`Expected wsUrl of ${options.network} to begin with ws:// or wss://, without a fragment (#).`)
  }
  return {
    wsUrl: undefined,
    maxGas: 300_000,
    maxFeePerGasWei: 2_000_000_000n,
    maxPriorityFeePerGasWei: 1_000_000n,
    confirmations: 1,
    rpcTimeoutMs: 10_000,
    receiptTimeoutMs: 20_000,
    firstPollMs: 20,
    pollMs: 1_000,
    lookAgainMs: 15_000,
    headMaxAgeMs: 10_000,
    staleHeadMs: 120_000,
    expiryMarginSeconds: 30,
    factories: [],
    maxInFlight: 256,
    failureBudget: { failures: 10, windowMs: 60_000 },
    clock: systemClock,
    log: silentLog,
    ...options,
  }
}
