import { resolveAssets } from '../../../core/config/assets.ts'
import { facilitatorChoice } from '../../../core/config/facilitator.ts'
import type { Config, NetworkConfig } from '../../../core/config/types.ts'
import type { Asset } from '../../../core/domain/asset.ts'
import { parseAmount } from '../../../core/domain/money.ts'
import { familyOf, type NetworkId } from '../../../core/domain/network.ts'
import { isLoopback } from '../../../core/http/isLoopback.ts'
import type { Chains } from '../../../core/ports/chains/chains.ts'
import type { Settler } from '../../../core/ports/chains/settler.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Egress } from '../../../core/ports/egress.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { GasBook } from '../../../core/ports/store/gasBook.ts'

const FAILURE_WINDOW_MS = 600_000

/** Every network of the configuration with its settler. */
export interface OpenChains extends Chains {
  /** Networks that can't be settled on yet, because the facilitator could not say what it takes: not offered meanwhile. */
  readonly missing: readonly NetworkId[]
  /** Asks the missing ones again. @returns those that can be paid on now; links have to be compiled anew for them */
  openMissing(): Promise<readonly NetworkId[]>
  close(): Promise<void>
}

export interface ChainParts {
  readonly clock: Clock
  readonly log: Log
  readonly egress: Egress
  readonly gasBook?: GasBook | undefined
  /** Awaited before a network is offered, with its settler. */
  readonly beginSettler?: ((settler: Settler) => Promise<void>) | undefined
  readonly wrapSettler?: ((settler: Settler) => Settler) | undefined
  /** False for a network that stays missing for now. */
  readonly mayOpen?: ((network: NetworkId) => boolean) | undefined
}

/**
 * Makes the settlers that the configuration names. A remote facilitator is asked what it supports; one that does not
 * answer must not keep the other networks and the free links from starting.
 */
export async function openChains(config: Config, parts: ChainParts): Promise<OpenChains> {
  const assets = resolveAssets(config)
  const settlers = new Map<NetworkId, Settler>()
  const missing = new Set(Object.keys(config.networks) as NetworkId[])

  async function open(network: NetworkId): Promise<boolean> {
    const own = assets.filter((asset) => asset.network === network)
    const choice = config.networks[network]!
    try {
      const settler = await openSettler(network, choice, own, parts)
      await parts.beginSettler?.(settler)
      settlers.set(network, parts.wrapSettler?.(settler) ?? settler)
      missing.delete(network)
      return true
    } catch (err) {
      if (choice.facilitator.url === undefined) throw err
      parts.log.error(
        { network, why: (err as Error).message },
        'this network can not be paid on yet; trying again',
      )
      return false
    }
  }

  const asking = new Set<NetworkId>()
  const openMissing = async () => {
    const asked = [...missing].filter((one) => !asking.has(one) && parts.mayOpen?.(one) !== false)
    for (const one of asked) asking.add(one)
    const opened = await Promise.all(asked.map((one) => open(one).finally(() => asking.delete(one))))
    return asked.filter((_, i) => opened[i])
  }
  await openMissing()
  return {
    assets,
    get settlers() {
      return [...settlers.values()]
    },
    get missing() {
      return [...missing]
    },
    openMissing,
    settler(network, scheme = 'exact') {
      const settler = settlers.get(network)
      return settler?.scheme === scheme ? settler : undefined
    },
    async close() {
      for (const settler of settlers.values()) await settler.close()
    },
  }
}

async function openSettler(
  network: NetworkId,
  config: NetworkConfig,
  assets: readonly Asset[],
  { clock, log, egress, gasBook }: ChainParts,
): Promise<Settler> {
  const choice = facilitatorChoice(config.facilitator)
  const { settleTimeoutMs: waitMs, firstPollMs, pollMs, confirmations } = config
  const common = { network, assets, clock, log, confirmations }
  const payerLimits = {
    maxInFlight: choice.maxInFlight,
    maxInFlightPerPayer: choice.maxInFlightPerPayer,
    failureBudget: { failures: choice.maxFailuresPerPayer, windowMs: FAILURE_WINDOW_MS },
  }
  // Each is loaded when a network needs it: the libraries of one chain are a third of an idle gateway's memory.
  if (choice.kind === 'remote') {
    const { createRemoteSettler } = await import(
      '../../../adapters/chains/facilitator/createRemoteSettler.ts'
    )
    return createRemoteSettler({
      ...common,
      url: choice.url,
      headers: choice.headers,
      rpcUrls: config.rpcUrls,
      firstPollMs,
      pollMs,
      egress,
      ...payerLimits,
      maxComputeUnits: choice.maxComputeUnits,
      maxMicroLamportsPerUnit: choice.maxMicroLamportsPerUnit,
      ...(waitMs !== undefined && { settleTimeoutMs: waitMs, proofTimeoutMs: waitMs }),
    })
  }
  const own = {
    ...common,
    ...payerLimits,
    gasBook,
    needsStart: true,
    minPriceAtomic: parseAmount(choice.minPrice, 6),
  }
  const gas = (decimals: number) =>
    choice.maxGasPerStoreAndDay === undefined
      ? {}
      : {
          maxGasPerStoreAndDay:
            BigInt(Math.round(choice.maxGasPerStoreAndDay * 1e9)) * 10n ** BigInt(decimals - 9),
        }
  if (familyOf(network) === 'solana') {
    const { createSolanaSettler } = await import('../../../adapters/chains/solana/settler.ts')
    const { privateKeys, maxComputeUnits, maxMicroLamportsPerUnit } = choice
    return createSolanaSettler({
      ...own,
      ...gas(9),
      firstPollMs,
      pollMs,
      rpcUrls: config.rpcUrls,
      ...(config.wsUrl !== undefined && { wsUrl: config.wsUrl }),
      privateKeys,
      maxComputeUnits,
      maxMicroLamportsPerUnit,
      ...(waitMs !== undefined && { confirmTimeoutMs: waitMs }),
    })
  }
  const { createEvmSettler } = await import('../../../adapters/chains/evm/settler.ts')
  return createEvmSettler({
    ...own,
    ...gas(18),
    firstPollMs,
    pollMs,
    rpcUrls: config.rpcUrls,
    wsUrl: config.wsUrl,
    privateKeys: choice.privateKeys,
    maxGas: choice.maxGas,
    maxPaymentsPerTransaction: choice.maxPaymentsPerTransaction,
    gatherMs: choice.gatherMs,
    maxFeePerGasWei: BigInt(Math.round(choice.maxFeePerGasGwei * 1e9)),
    factories: choice.factories,
    // A node on this machine may be a test chain, which is as old as its last transaction.
    ...(config.rpcUrls.every((url) => isLoopback(new URL(url).hostname)) && {
      staleHeadMs: Number.POSITIVE_INFINITY,
    }),
    ...(waitMs !== undefined && { receiptTimeoutMs: waitMs }),
  })
}
