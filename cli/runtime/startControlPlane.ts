import { createWalletProofs } from '../../adapters/chains/wallets/createWalletProofs.ts'
import { createAdminApi } from '../../admin-api/server.ts'
import type { Config } from '../../core/config/types.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import { payoutFaults, priceFaults } from '../../core/payments/payoutFaults.ts'
import type { Metrics } from '../../core/ports/metrics.ts'
import { openTerms } from '../../plugins/x402/offers.ts'
import { options as x402Options } from '../../plugins/x402/options.ts'
import { openRefundProofs } from './openRefundProofs.ts'
import type { Stack } from './openStack.ts'
import { readiness } from './readiness.ts'
import { startJobs } from './startJobs.ts'
import { urlOf } from './urlOf.ts'

/** The admin API and the background work: one of each in an installation. */
export interface ControlPlane {
  readonly adminUrl: string
  close(): Promise<void>
}

/** @param metrics what `/metrics` shows */
export async function startControlPlane(
  config: Config,
  stack: Stack,
  metrics: Metrics,
): Promise<ControlPlane> {
  const { ports, store, chains } = stack
  const maxTimeoutSeconds = paymentWindow(config)
  const admin = await createAdminApi({
    ...ports,
    metrics,
    stores: store.stores,
    keys: store.keys,
    nonces: store.nonces,
    reviews: store.reviews,
    discovery: store.discovery,
    webhooks: store.webhooks,
    refundProofs: openRefundProofs(config, ports),
    walletProofs: createWalletProofs(signInChain(config)),
    publicUrl: config.publicUrl,
    serviceName: config.serviceName,
    assets: chains.assets,
    payoutFaults: async (payout, price) => [
      ...(price === undefined ? [] : priceFaults(chains, payout, price)),
      ...(await payoutFaults(chains, payout)),
    ],
    termsOf: (link) => openTerms(link, chains, maxTimeoutSeconds),
    ready: () => readiness(store, chains),
    options: {
      reservedUsernames: config.admin.reservedUsernames,
      maxRenamesPerDay: config.admin.maxRenamesPerDay,
      maxLinksPerStore: config.admin.maxLinksPerStore,
      limits: config.admin.limits,
    },
  })
  const adminUrl = urlOf(await admin.listen(config.admin))
  const jobs = await startJobs(stack, ports.log)
  return {
    adminUrl,
    async close() {
      await admin.close()
      await jobs.stop()
    },
  }
}

/** How long the 402 lets a payment be valid, which is an option of its plugin. */
function paymentWindow({ plugins }: Config): number {
  const given = plugins.find(({ use }) => use === 'x402')?.with?.['maxTimeoutSeconds']
  return typeof given === 'number' ? given : x402Options.properties.maxTimeoutSeconds.default
}

/** The EVM chain that wallets sign in on: Base, or the first EVM network of a gateway that is not on Base. */
function signInChain({ networks }: Config): { evmChainId?: number; evmRpcUrls?: readonly string[] } {
  const id =
    'eip155:8453' in networks ? 'eip155:8453' : Object.keys(networks).find((n) => n.startsWith('eip155:'))
  if (id === undefined) return {}
  return {
    evmChainId: Number(id.slice('eip155:'.length)),
    evmRpcUrls: networks[id as NetworkId]?.rpcUrls ?? [],
  }
}
