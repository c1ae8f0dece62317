import { createWalletProofs } from '../../adapters/chains/wallets/createWalletProofs.ts'
import type { AdminApiDeps, Look, OperatorDeps } from '../../admin-api/deps.ts'
import type { Feature } from '../../admin-api/feature.ts'
import { features, ownFeatures } from '../../admin-api/features.ts'
import { type AdminApi, createAdminApi } from '../../admin-api/server.ts'
import { redact } from '../../core/config/redact.ts'
import { configSchema } from '../../core/config/schema.ts'
import type { Config } from '../../core/config/types.ts'
import { canonicalAddress } from '../../core/domain/address.ts'
import type { Payout } from '../../core/domain/link.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Generation } from '../../core/kernel/generation.ts'
import { linkProgramOf, programEntriesOf } from '../../core/kernel/linkProgram.ts'
import { createTransfers } from '../../core/payments/bookTransfer.ts'
import { payoutFaults, priceFaults } from '../../core/payments/payoutFaults.ts'
import type { ProcessCalls } from '../../core/ports/callCounts.ts'
import type { Settler } from '../../core/ports/chains/settler.ts'
import type { LinkCalls } from '../../core/ports/linkCalls.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Metrics } from '../../core/ports/metrics.ts'
import { offersOf, openTerms } from '../../core/x402/offers.ts'
import { options as x402Options } from '../../plugins/x402/options.ts'
import { giveBackHeap } from './heap/giveBackHeap.ts'
import { keptLook } from './keptLook.ts'
import { longestReplayMs } from './longestReplay.ts'
import { openPayers } from './open/openPayers.ts'
import type { Stack } from './open/openStack.ts'
import { createReadiness } from './readiness.ts'
import { does, type Role } from './role.ts'
import { createSettlingReports } from './settlingReports.ts'
import { withStanding } from './standingMetrics.ts'
import { startJobs } from './startJobs.ts'
import { urlOf } from './urlOf.ts'

/** The admin API and the background work: one of each in an installation. */
export interface ControlPlane {
  readonly adminUrl: string
  /** Of the listener for metrics and probes; undefined where none is configured. */
  readonly monitoringUrl: string | undefined
  /** `/readyz` answers 503 from now on; everything else goes on. */
  announceStop(): void
  close(): Promise<void>
}

/** What the control plane has of the data plane. */
export interface FromDataPlane {
  /** What `/metrics` shows. */
  readonly metrics: Pick<Metrics, 'source'>
  /** What tools call links through. */
  readonly linkCalls: LinkCalls
  /** What became of the calls of each process, asked now. Answers soon, whoever stands still. */
  callCounts(): Promise<readonly ProcessCalls[]>
  /** Whose programs links run; undefined while the gateway starts. */
  readonly generation: Generation | undefined
}

/**
 * Starts the admin API, and the background work. A process that was started for something else has a listener all the same,
 * for the operator's tools.
 *
 * @param only what this process does; absent: everything
 */
export async function startControlPlane(
  config: Config,
  stack: Stack,
  data: FromDataPlane,
  only?: Role,
): Promise<ControlPlane> {
  const { ports, store, chains, starts } = stack
  const maxTimeoutSeconds = paymentWindow(config)
  const readiness = createReadiness({ store, chains, starts, isSettledElsewhere: !does('jobs', only) })
  const problems = async () => (await readiness()).flatMap((part) => part.problems)
  let isStopping = false
  const deps: AdminApiDeps = {
    ...ports,
    metrics: withStanding(data.metrics, {
      readiness,
      chains,
      counters: ports.counters,
      leases: store.leases,
      oversight: store.oversight,
    }),
    linkCalls: data.linkCalls,
    stores: store.stores,
    pictures: store.pictures,
    keys: store.keys,
    nonces: store.nonces,
    browserSessions: store.browserSessions,
    reviews: store.reviews,
    discovery: store.discovery,
    webhooks: store.webhooks,
    fees: store.fees,
    sessions: store.sessions,
    refundProofs: stack.refundProofs,
    transferProofs: stack.transferProofs,
    transfers: createTransfers({
      ...{ books: store.books, sessions: store.sessions, chains, notes: stack.notes, lease: stack.lease },
      ...{ clock: ports.clock, log: ports.log },
    }),
    payers: openPayers(config, ports),
    walletProofs: createWalletProofs(signInChain(config)),
    publicUrl: config.publicUrl,
    serviceName: config.serviceName,
    assets: chains.assets,
    feesPayTo: feesPayTo(config),
    payoutFaults: async (payout, price) => [
      ...(price === undefined ? [] : priceFaults(chains, payout, price)),
      ...(await payoutFaults(chains, payout)),
    ],
    termsOf: (link) => openTerms(link, chains, maxTimeoutSeconds),
    offersOf: (sold) => offersOf(sold, chains, maxTimeoutSeconds),
    async ready() {
      if (isStopping) throw new TollgateError('NOT_READY', 'The gateway is stopping; call another one.')
      return problems()
    },
    ...(config.operator.token !== undefined && {
      operator: operatorOf(config, config.operator.token, stack, data, problems),
    }),
    options: {
      reservedUsernames: config.admin.reservedUsernames,
      maxRenamesPerDay: config.admin.maxRenamesPerDay,
      hstsIncludeSubDomains: config.admin.hstsIncludeSubDomains,
      maxLinksPerStore: config.admin.maxLinksPerStore,
      maxOpenSessionsPerStore: config.admin.maxOpenSessionsPerStore,
      limits: config.admin.limits,
      trustProxy: ['loopback', ...config.admin.trustedGatewayCidrs],
    },
  }
  const admin = await createAdminApi(deps, featuresOf(only))
  giveBackHeap()
  try {
    const adminUrl = urlOf(await admin.listen(config.admin))
    const monitoringUrl = await listenForMonitoring(admin, config, ports.log)
    const jobs = does('jobs', only)
      ? await startJobs(stack, ports.log, () => longestReplayMs(data.generation))
      : undefined
    return {
      adminUrl,
      monitoringUrl,
      announceStop() {
        isStopping = true
      },
      async close() {
        await admin.close()
        await jobs?.stop()
      },
    }
  } catch (error) {
    // It listens already and has begun its jobs, which would keep the process up without a database.
    await admin.close()
    throw error
  }
}

async function listenForMonitoring(
  admin: AdminApi,
  { monitoring: { host, port } }: Config,
  log: Log,
): Promise<string | undefined> {
  if (port === undefined) return undefined
  const url = urlOf(await admin.listenForMonitoring({ host, port }))
  log.info({ event: 'monitoring', url }, 'metrics and probes have a port of their own')
  return url
}

function featuresOf(only: Role | undefined): readonly Feature[] {
  const served = does('admin', only) ? features : ownFeatures
  const worked = does('jobs', only) ? features : []
  return [
    ...served.map(({ jobs: _, ...routes }) => routes),
    ...worked.map(({ name, jobs = [] }) => ({ name, jobs })),
  ]
}

/** How long the 402 lets a payment be valid, which is an option of its plugin. */
function paymentWindow({ plugins }: Config): number {
  const given = plugins.find(({ use }) => use === 'x402')?.with?.['maxTimeoutSeconds']
  return typeof given === 'number' ? given : x402Options.properties.maxTimeoutSeconds.default
}

/** The operator's wallets, each in the one spelling of its chain. */
const feesPayTo = ({ fees: { payTo } }: Config): Payout => ({
  base: canonicalAddress('eip155', payTo.base) ?? null,
  solana: canonicalAddress('solana', payTo.solana) ?? null,
})

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

/** What the operator's page shows, for whoever has the token. No dead node keeps it waiting. */
function operatorOf(
  config: Config,
  token: string,
  stack: Stack,
  data: FromDataPlane,
  problems: () => Promise<readonly string[]>,
): OperatorDeps {
  const { store, chains } = stack
  const looks = new WeakMap<Settler, () => Promise<Look<string[]>>>()
  const diagnose = async (settler: Settler): Promise<string[]> => {
    let look = looks.get(settler)
    if (look === undefined) looks.set(settler, (look = keptLook(() => settler.diagnose())))
    const { value = [], fault } = await look()
    return fault === undefined ? value : [`${settler.network}: the nodes can not be asked now. ${fault}`]
  }
  return {
    ...{ token, books: store.books, config: redact(config, configSchema) as object },
    oversight: store.oversight,
    settling: createSettlingReports(stack),
    callCounts: () => data.callCounts(),
    programOf(link) {
      const { generation } = data
      if (generation === undefined)
        throw new TollgateError('NOT_READY', 'The gateway is starting; ask again.')
      return { ...linkProgramOf(generation, link), entries: programEntriesOf(generation, link) }
    },
    problems,
    async networks() {
      const open = await Promise.all(
        chains.settlers.map(async (settler) => ({
          ...{ network: settler.network, isOpen: true },
          problems: await diagnose(settler),
        })),
      )
      const missing = chains.missing.map((network) => ({
        ...{ network, isOpen: false, problems: ['Its facilitator does not answer.'] },
      }))
      return [...open, ...missing]
    },
  }
}
