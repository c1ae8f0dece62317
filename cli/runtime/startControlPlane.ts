import type {
  AdminApiDeps,
  Feature,
  LastReading,
  OperatorDeps,
  SettlingReport,
} from '../../admin-api/deps.ts'
import { features, ownFeatures } from '../../admin-api/features.ts'
import { type AdminApi, createAdminApi } from '../../admin-api/server.ts'
import { redact } from '../../core/config/redact.ts'
import { type Config, configSchema } from '../../core/config/schema.ts'
import { canonicalAddress } from '../../core/domain/address.ts'
import type { Payout } from '../../core/domain/link.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Generation } from '../../core/kernel/generation.ts'
import { linkPipelineOf, pipelineEntriesOf } from '../../core/kernel/linkPipeline.ts'
import { offersOf, openTerms, payoutFaults, priceFaults } from '../../core/offers/offers.ts'
import { leaseNameOf } from '../../core/payments/leases.ts'
import { createTransfers } from '../../core/payments/transfers.ts'
import type { ProcessCalls } from '../../core/ports/callCounts.ts'
import type { OwnKey, Settler, SettlingKey } from '../../core/ports/chains/settler.ts'
import type { LinkCalls } from '../../core/ports/linkCalls.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Metrics } from '../../core/ports/metrics.ts'
import { options as x402Options } from '../../plugins/x402/options.ts'
import { cachedRead } from './cachedRead.ts'
import { urlOf } from './gatewayUrl.ts'
import { releaseHeap } from './heap/releaseHeap.ts'
import type { Stack } from './open/openStack.ts'
import { createReadiness } from './readiness.ts'
import { does, type Role } from './role.ts'
import { withStanding } from './standingMetrics.ts'
import { longestReplayMs, startJobs } from './startJobs.ts'

/** The admin API and the background jobs. An installation has one of each. */
export interface ControlPlane {
  readonly adminUrl: string
  /** URL of the listener for metrics and probes. Undefined if none is configured. */
  readonly monitoringUrl: string | undefined
  /** From now on, `/readyz` responds with 503. Everything else continues. */
  announceStop(): void
  close(): Promise<void>
}

/** The functions of the data plane that the control plane uses. */
export interface FromDataPlane {
  /** Source of `/metrics`. */
  readonly metrics: Pick<Metrics, 'source'>
  /** Runs calls of sellers' links for the MCP tools. */
  readonly linkCalls: LinkCalls
  /** Reads the number of calls of each process. Responds within a second even if a process hangs. */
  callCounts(): Promise<readonly ProcessCalls[]>
  /** The current plugins with the pipelines that they compiled. Undefined while the gateway starts. */
  readonly generation: Generation | undefined
  /**
   * Whether this process serves its share of calls. In a process with a public listener, this is whether the listener accepts
   * connections.
   */
  readonly isListening: boolean
}

/**
 * Starts the admin API and the background jobs. A process that runs only another part still has the admin listener, for the
 * operator's tools.
 * @param only the part that this process runs. By default everything
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
      operatorView: store.operatorView,
    }),
    linkCalls: data.linkCalls,
    stores: store.stores,
    images: store.images,
    keys: store.keys,
    nonces: store.nonces,
    browserSessions: store.browserSessions,
    reviews: store.reviews,
    discovery: store.discovery,
    webhooks: store.webhooks,
    fees: store.fees,
    channels: store.channels,
    channelBooks: store.channelBooks,
    notes: stack.notes,
    sessions: store.sessions,
    refundProofs: chains.refundProofs,
    transferProofs: chains.transferProofs,
    transfers: createTransfers({
      ledger: store.ledger,
      sessions: store.sessions,
      chains,
      notes: stack.notes,
      lease: stack.lease,
      clock: ports.clock,
      log: ports.log,
    }),
    payers: chains.payers,
    walletProofs: ports.walletProofs,
    publicUrl: config.publicUrl,
    serviceName: config.serviceName,
    assets: chains.assets,
    feesPayTo: feesPayTo(config),
    payoutFaults: async (payout, sold) => [
      ...(sold === undefined ? [] : priceFaults(chains, { ...sold, payout })),
      ...(await payoutFaults(chains, payout)),
    ],
    termsOf: (link) => openTerms(link, chains, maxTimeoutSeconds),
    offersOf: (sold) => offersOf(sold, chains, maxTimeoutSeconds),
    async ready() {
      if (isStopping) throw new TollgateError('NOT_READY', 'The gateway is stopping. Call another gateway.')
      if (!data.isListening) throw new TollgateError('NOT_READY', 'The gateway is starting. Call again.')
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
  releaseHeap()
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
    // The listener and the jobs are already running. They would keep the process alive after the database is closed.
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

/** How long a payment may be valid according to the 402, from the x402 plugin's option. */
function paymentWindow({ plugins }: Config): number {
  const given = plugins.find(({ use }) => use === 'x402')?.with?.['maxTimeoutSeconds']
  return typeof given === 'number' ? given : x402Options.properties.maxTimeoutSeconds.default
}

/** The operator's fee wallets, normalized per chain. */
const feesPayTo = ({ fees: { payTo } }: Config): Payout => ({
  base: canonicalAddress('eip155', payTo.base) ?? null,
  solana: canonicalAddress('solana', payTo.solana) ?? null,
})

/** The data of the operator's page, which needs the operator token. A node that does not respond does not delay it. */
function operatorOf(
  config: Config,
  token: string,
  stack: Stack,
  data: FromDataPlane,
  problems: () => Promise<readonly string[]>,
): OperatorDeps {
  const { store, chains } = stack
  const readings = new WeakMap<Settler, () => Promise<LastReading<string[]>>>()
  const diagnose = async (settler: Settler): Promise<string[]> => {
    let reading = readings.get(settler)
    if (reading === undefined) readings.set(settler, (reading = cachedRead(() => settler.diagnose())))
    const { value = [], fault } = await reading()
    return fault === undefined ? value : [`${settler.network}: the nodes cannot be reached. ${fault}`]
  }
  return {
    token,
    ledger: store.ledger,
    config: redact(config, configSchema) as object,
    operatorView: store.operatorView,
    settling: createSettlingReports(stack),
    callCounts: () => data.callCounts(),
    pipelineOf(link) {
      const { generation } = data
      if (generation === undefined)
        throw new TollgateError('NOT_READY', 'The gateway is starting. Try again.')
      return { ...linkPipelineOf(generation, link), entries: pipelineEntriesOf(generation, link) }
    },
    problems,
    async networks() {
      const open = await Promise.all(
        chains.settlers.map(async (settler) => ({
          network: settler.network,
          isOpen: true,
          problems: await diagnose(settler),
        })),
      )
      const missing = chains.missing.map((network) => ({
        network,
        isOpen: false,
        problems: ['The facilitator does not respond.'],
      }))
      return [...open, ...missing]
    },
  }
}

const DAY_MS = 86_400_000
/** Number of days of gas costs in the report. The database stores no more. */
const GAS_DAYS = 7

/**
 * The state of each network's settler and of its keys. Reads of the nodes are cached, so a node that does not respond hardly
 * delays a request.
 */
function createSettlingReports({
  store,
  chains,
  ports: { clock },
}: Pick<Stack, 'store' | 'chains' | 'ports'>): () => Promise<readonly SettlingReport[]> {
  const readings = new WeakMap<OwnKey, () => Promise<LastReading<SettlingKey>>>()

  function readingOf(key: OwnKey): Promise<LastReading<SettlingKey>> {
    let reading = readings.get(key)
    if (reading === undefined) {
      const made = cachedRead(
        () => key.readState(),
        () => clock.now(),
      )
      readings.set(key, (reading = made))
    }
    return reading()
  }

  async function reportOf(
    { network, isExclusive }: Settler,
    id: string,
    key?: OwnKey,
  ): Promise<SettlingReport> {
    const today = Math.floor(clock.now() / DAY_MS)
    const [found, open, days, holder] = await Promise.all([
      key === undefined ? null : readingOf(key),
      store.ledger.openAttempts(id),
      store.operatorView.gasByDay(network, today - GAS_DAYS + 1),
      isExclusive ? store.leases.holderOf(leaseNameOf(id)) : undefined,
    ])
    const gas = {
      today: days.filter(({ day }) => day >= today).reduce((sum, { spent }) => sum + spent, 0n),
      week: days.reduce((sum, { spent }) => sum + spent, 0n),
    }
    const lease = isExclusive ? (holder ?? 'free') : 'any'
    return { network, settler: id, key: found, openAttempts: open.length, gas, lease }
  }

  return () =>
    Promise.all(
      chains.settlers.flatMap((settler) =>
        settler.keys === undefined
          ? reportOf(settler, settler.id)
          : settler.keys.map((key) => reportOf(settler, key.id, key)),
      ),
    )
}
