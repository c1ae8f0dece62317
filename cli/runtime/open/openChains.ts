import { type Network, once, payerLimitsOf } from '../../../adapters/chains/network.ts'
import type { ChannelNetwork } from '../../../core/channels/offers.ts'
import { resolveAssets } from '../../../core/config/assets.ts'
import { type Config, facilitatorChoice } from '../../../core/config/schema.ts'
import { familyOf, type NetworkId } from '../../../core/domain/network.ts'
import { type Job, startJob } from '../../../core/jobs/job.ts'
import type { Chains } from '../../../core/ports/chains/chains.ts'
import type { PastSettlements } from '../../../core/ports/chains/pastSettlements.ts'
import type { Payers } from '../../../core/ports/chains/payers.ts'
import type { RefundProofs } from '../../../core/ports/chains/refundProofs.ts'
import type { Settler } from '../../../core/ports/chains/settler.ts'
import type { TransferProofs } from '../../../core/ports/chains/transferProofs.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Egress } from '../../../core/ports/egress.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { GasBook } from '../../../core/ports/store/gasBook.ts'

/** Time between two requests to facilitators that did not respond at startup, in ms. */
const RETRY_MS = 5_000

/** Every configured network with its settler, and a client for each configured node, regardless of the kind of settler. */
export interface OpenChains extends Chains {
  /**
   * Networks without a settler, because their facilitator has not reported what it supports. They are not offered until it has.
   */
  readonly missing: readonly NetworkId[]
  readonly transferProofs: TransferProofs
  readonly refundProofs: RefundProofs
  readonly pastSettlements: PastSettlements
  readonly payers: Payers
  /** The networks with payment channels, by id. */
  readonly channels: ReadonlyMap<NetworkId, ChannelNetwork>
  /**
   * Tries to open the missing networks again.
   * @returns the networks that can be paid on now. The links' pipelines must be compiled again for them
   */
  openMissing(): Promise<readonly NetworkId[]>
  close(): Promise<void>
}

export interface ChainDeps {
  readonly clock: Clock
  readonly log: Log
  readonly egress: Egress
  readonly gasBook?: GasBook | undefined
  /** Called with a network's settler and awaited before the network is offered. */
  readonly beginSettler?: ((settler: Settler) => Promise<void>) | undefined
  readonly wrapSettler?: ((settler: Settler) => Settler) | undefined
  /** Returns false for a network that must not be opened yet. */
  readonly mayOpen?: ((network: NetworkId) => boolean) | undefined
}

/**
 * Opens the configured networks. A remote facilitator reports what it supports. If a facilitator does not respond, the other
 * networks and the free links must still start.
 */
export async function openChains(config: Config, deps: ChainDeps): Promise<OpenChains> {
  const assets = resolveAssets(config)
  const networks = new Map(
    (Object.keys(config.networks) as NetworkId[]).map((id) => [id, openNetwork(id, config, deps)]),
  )
  const settlers = new Map<NetworkId, Settler>()
  const missing = new Set(networks.keys())

  async function open(network: NetworkId): Promise<boolean> {
    try {
      const settler = await networks.get(network)!.settler()
      await deps.beginSettler?.(settler)
      settlers.set(network, deps.wrapSettler?.(settler) ?? settler)
      missing.delete(network)
      return true
    } catch (err) {
      if (config.networks[network]!.facilitator.url === undefined) throw err
      deps.log.error(
        { network, why: (err as Error).message },
        'this network does not accept payments yet and is tried again',
      )
      return false
    }
  }

  const opening = new Set<NetworkId>()
  const openMissing = async (): Promise<readonly NetworkId[]> => {
    const asked = [...missing].filter((one) => !opening.has(one) && deps.mayOpen?.(one) !== false)
    for (const one of asked) opening.add(one)
    const opened = await Promise.all(asked.map((one) => open(one).finally(() => opening.delete(one))))
    return asked.filter((_, i) => opened[i])
  }
  await openMissing()
  const channels = new Map<NetworkId, ChannelNetwork>()
  for (const [network, settler] of settlers) {
    const terms = config.networks[network]!.channels
    if (terms === undefined) continue
    const chain = await (await networks.get(network)!.chain()).channelChain!(terms.authorizerKeys, settler)
    channels.set(network, { ...terms, chain })
  }

  /** The client of a network's nodes. Undefined for a network without a configured node. */
  const nodesOf = async (network: NetworkId): Promise<Network | undefined> =>
    (config.networks[network]?.rpcUrls ?? []).length === 0 ? undefined : networks.get(network)!.chain()

  return {
    assets,
    get settlers() {
      return [...settlers.values()]
    },
    get missing() {
      return [...missing]
    },
    openMissing,
    channels,
    settler(network, scheme = 'exact') {
      const settler = settlers.get(network)
      return settler?.schemes.some((one) => one === scheme) ? settler : undefined
    },
    transferProofs: {
      async prove(wanted, transaction) {
        const proofs = await (await nodesOf(wanted.network))?.transferProofs()
        return proofs?.prove(wanted, transaction) ?? notConfigured
      },
      async find(wanted) {
        const proofs = await (await nodesOf(wanted.network))?.transferProofs()
        return proofs?.find(wanted) ?? notConfigured
      },
    },
    refundProofs: {
      async prove(transfer) {
        const proofs = await (await nodesOf(transfer.network))?.refundProofs()
        return proofs?.prove(transfer) ?? notConfigured
      },
    },
    pastSettlements: {
      async search(network, question) {
        const past = await (await nodesOf(network))?.pastSettlements()
        return past?.search(network, question) ?? notConfigured
      },
    },
    payers: {
      async read(asset, address) {
        const payers = await (await nodesOf(asset.network))?.payers?.()
        return payers?.read(asset, address)
      },
    },
    async close() {
      for (const settler of settlers.values()) await settler.close()
    },
  }
}

/**
 * Opens missing networks as soon as their facilitators respond, until it is stopped.
 * @param opened called when networks have opened. If it fails, it is called again
 */
export function openLate(
  chains: Pick<OpenChains, 'missing' | 'openMissing'>,
  log: Log,
  opened: () => unknown,
): Job {
  let isOwed = false
  return startJob({
    name: 'open networks that are missing',
    everyMs: RETRY_MS,
    log,
    async run() {
      if (chains.missing.length > 0 && (await chains.openMissing()).length > 0) isOwed = true
      if (!isOwed) return
      await opened()
      isOwed = false
    },
  })
}

const notConfigured = { status: 'not_configured' } as const

function openNetwork(network: NetworkId, config: Config, { clock, log, egress, gasBook }: ChainDeps) {
  const own = config.networks[network]!
  const assets = resolveAssets(config).filter((asset) => asset.network === network)
  const options = { network, config: own, assets, clock, log, gasBook }
  const chain = once(async (): Promise<Network> => {
    if (familyOf(network) === 'solana')
      return new (await import('../../../adapters/chains/solana/network.ts')).SolanaNetwork(options)
    return new (await import('../../../adapters/chains/evm/network.ts')).EvmNetwork(options)
  })

  const settler = async (): Promise<Settler> => {
    const choice = facilitatorChoice(own.facilitator)
    if (choice.kind === 'embedded') return (await chain()).settler(choice)
    const { createRemoteSettler } = await import('../../../adapters/chains/facilitator/settler.ts')
    return createRemoteSettler({
      network,
      assets,
      clock,
      log,
      egress,
      url: choice.url,
      headers: choice.headers,
      rpcUrls: own.rpcUrls,
      confirmations: own.confirmations,
      firstPollMs: own.firstPollMs,
      pollMs: own.pollMs,
      ...payerLimitsOf(choice),
      maxComputeUnits: choice.maxComputeUnits,
      maxMicroLamportsPerUnit: choice.maxMicroLamportsPerUnit,
      ...(own.settleTimeoutMs !== undefined && {
        settleTimeoutMs: own.settleTimeoutMs,
        proofTimeoutMs: own.settleTimeoutMs,
      }),
    })
  }
  return { chain, settler }
}
