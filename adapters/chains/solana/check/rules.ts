import { LRUCache } from 'lru-cache'
import type { Asset } from '../../../../core/domain/asset.ts'
import { type NetworkId, v1NameOf } from '../../../../core/domain/network.ts'
import { TollgateError } from '../../../../core/errors/error.ts'
import { type Clock, systemClock } from '../../../../core/ports/clock.ts'
import { readAddress, tokenProgramBytes } from '../../../../core/solana/addresses.ts'
import { associatedTokenAddress } from '../../../../core/solana/tokenAccount.ts'

/**
 * Default limit of the compute units that a payment may request, as in the specification. The public clients request 20,000, which
 * is ten times the use of a TransferChecked with a memo of 256 bytes. Wallets that add assertions request more. A payment above the
 * limit is refused, because the fee payer pays for requested units, not for used ones.
 */
export const DEFAULT_MAX_COMPUTE_UNITS = 400_000
/**
 * Default limit of the price of a compute unit, in millionths of a lamport. With the limit above, the priority fee is at most
 * 80,000 lamports. Clients that must land in full blocks offer 100,000. The reference facilitator accepts 5,000,000 and any number
 * of units, so a payment of a cent can cost it 7,000,000 lamports.
 */
export const DEFAULT_MAX_MICRO_LAMPORTS_PER_UNIT = 200_000

const CACHED_DESTINATIONS = 10_000

export interface SolanaRulesOptions {
  readonly network: NetworkId
  /** Base58 addresses that may pay the fee. One of them must be account 0. These accounts never lose more than the fee. */
  readonly feePayers: readonly string[]
  /** Whether a payer may pay the fee if the terms name the payer as `feePayer`. Default false. */
  readonly takesSelfPaid?: boolean
  /** Tokens that are accepted. Tokens of other networks are ignored. */
  readonly assets: readonly Asset[]
  /** Maximum number of compute units that a payment may request. Default 400,000. */
  readonly maxComputeUnits?: number
  /** Highest price of a compute unit, in millionths of a lamport. Default 200,000. */
  readonly maxMicroLamportsPerUnit?: number
  readonly clock?: Clock
}

/** One token, in the form that the check uses. */
export interface AssetRule {
  readonly asset: Asset
  readonly mint: Uint8Array
  readonly tokenProgram: Uint8Array
}

/** The precomputed rules of {@link checkSolanaPayment}. */
export interface SolanaRules {
  readonly network: NetworkId
  readonly v1Name: string | undefined
  readonly feePayers: readonly { readonly address: string; readonly key: Uint8Array }[]
  readonly takesSelfPaid: boolean
  readonly assets: ReadonlyMap<string, AssetRule>
  readonly maxComputeUnits: number
  readonly maxMicroLamportsPerUnit: bigint
  readonly clock: Clock
  /**
   * Associated token account of `payTo`. Undefined if `payTo` is not an address. The result is cached, because deriving it takes
   * 0.3 ms.
   */
  destinationOf(payTo: string, rule: AssetRule): Uint8Array | undefined
}

/**
 * Prepares the check of payments on one Solana network.
 *
 * @throws {TollgateError} `VALIDATION_ERROR` when a fee payer or a mint in the configuration is not an address
 */
export function solanaRules(options: SolanaRulesOptions): SolanaRules {
  const { network, maxComputeUnits = DEFAULT_MAX_COMPUTE_UNITS, clock = systemClock } = options
  const { maxMicroLamportsPerUnit = DEFAULT_MAX_MICRO_LAMPORTS_PER_UNIT } = options
  const assets = new Map<string, AssetRule>()
  for (const asset of options.assets) {
    if (asset.network !== network) continue
    const mint = configured(asset.address, `the mint of ${asset.symbol}`)
    assets.set(asset.address, { asset, mint, tokenProgram: tokenProgramBytes[asset.program ?? 'token'] })
  }
  const destinations = new LRUCache<string, Uint8Array>({ max: CACHED_DESTINATIONS })
  return {
    network,
    v1Name: v1NameOf(network),
    feePayers: options.feePayers.map((address) => ({ address, key: configured(address, 'the fee payer') })),
    takesSelfPaid: options.takesSelfPaid ?? false,
    assets,
    maxComputeUnits,
    maxMicroLamportsPerUnit: BigInt(maxMicroLamportsPerUnit),
    clock,
    destinationOf(payTo, rule) {
      const cacheKey = `${payTo}|${rule.asset.address}`
      const known = destinations.get(cacheKey)
      if (known !== undefined) return known
      const owner = readAddress(payTo)
      if (owner === undefined) return undefined
      const destination = associatedTokenAddress(owner, rule.tokenProgram, rule.mint)
      destinations.set(cacheKey, destination)
      return destination
    },
  }
}

function configured(address: string, what: string): Uint8Array {
  const bytes = readAddress(address)
  if (bytes !== undefined) return bytes
  throw new TollgateError(
    'VALIDATION_ERROR',
    `Expected ${what} as a Solana address (32 bytes in base58), got ${JSON.stringify(address)}.`,
  )
}
