import type { LastReading } from '../../admin-api/deps.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import { runningJobs } from '../../core/jobs/job.ts'
import { leaseNameOf } from '../../core/payments/leases.ts'
import type { KeyTrouble, OwnKey, SettlingKey } from '../../core/ports/chains/settler.ts'
import type { Counters } from '../../core/ports/counters.ts'
import type { Metrics, MetricsSource } from '../../core/ports/metrics.ts'
import type { Leases } from '../../core/ports/store/leases.ts'
import type { Backlog, OperatorView } from '../../core/ports/store/operatorView.ts'
import { version } from '../version.ts'
import { cachedRead } from './cachedRead.ts'
import type { OpenChains } from './open/openChains.ts'
import type { PartOfReadiness } from './readiness.ts'

export interface StandingDeps {
  readonly readiness: () => Promise<readonly PartOfReadiness[]>
  readonly chains: Pick<OpenChains, 'settlers'>
  readonly counters: Pick<Counters, 'isShared'>
  readonly leases: Pick<Leases, 'holderOf'>
  readonly operatorView: Pick<OperatorView, 'backlog'>
}

/**
 * The states of a settling key (the key that signs settlements), as this process sees it. `unreachable`: no node responds.
 * `out_of_gas`: it cannot pay for one more settlement. `unleased`: no process may sign with it. `elsewhere`: another process of
 * this installation signs with it. `unknown`: the database does not respond. The other states are those of {@link KeyTrouble}.
 */
const keyStates = [
  'ready',
  'low',
  'stuck',
  'shared',
  'out_of_gas',
  'elsewhere',
  'unleased',
  'unknown',
  'unreachable',
] as const satisfies readonly (KeyTrouble | string)[]
type KeyState = (typeof keyStates)[number]

/**
 * Minimum time between two database reads of lease holders, in ms. Prometheus and people may request the metrics at the same
 * time.
 */
const HOLDER_AGE_MS = 1_000
/** Minimum time between two counts of the backlog in the database, in ms. It is the same for any number of scrapers. */
const BACKLOG_AGE_MS = 10_000

/**
 * Appends the gateway's own state to the plugins' metrics: the parts of `/readyz`, Redis, and each settling key. Nothing is
 * read between scrapes. A part that is down delays no scrape. Without the metrics plugin, nothing is appended.
 */
export function withStanding(metrics: Pick<Metrics, 'source'>, parts: StandingDeps): Pick<Metrics, 'source'> {
  const standing = createStandingText(parts)
  return {
    get source(): MetricsSource | undefined {
      const { source } = metrics
      if (source === undefined) return undefined
      const text = async () => {
        const [ofPlugins, ofService] = await Promise.all([source.text(), standing()])
        return `${ofPlugins.replace(/\n?$/, '\n')}${ofService}`
      }
      return { contentType: source.contentType, text }
    },
  }
}

interface KeySeen {
  readonly labels: { readonly network: NetworkId; readonly key: string }
  readonly state: KeyState
  /** The last state that was read. */
  readonly found: SettlingKey | undefined
}

function createStandingText({
  readiness,
  chains,
  counters,
  leases,
  operatorView,
}: StandingDeps): () => Promise<string> {
  const backlog = cachedRead(() => operatorView.backlog(), Date.now, {
    ageMs: BACKLOG_AGE_MS,
    patienceMs: 1_000,
  })
  const readings = new WeakMap<OwnKey, () => Promise<LastReading<SettlingKey>>>()
  const holders = new WeakMap<OwnKey, ReturnType<typeof findHolder>>()

  const findHolder = (key: OwnKey) =>
    cachedRead(() => leases.holderOf(leaseNameOf(key.id)), Date.now, {
      ageMs: HOLDER_AGE_MS,
      patienceMs: 1_000,
    })

  async function stateOf(key: OwnKey, isExclusive: boolean, { value, fault }: LastReading<SettlingKey>) {
    if (fault !== undefined || value === undefined) return 'unreachable'
    if (value.paymentsLeft < 1n) return 'out_of_gas'
    if (isExclusive) {
      const holder = await memoized(holders, key, findHolder)()
      if (holder.fault !== undefined) return 'unknown'
      if (holder.value === undefined) return 'unleased'
      if (holder.value.process?.isThis === false) return 'elsewhere'
    }
    return value.trouble?.kind ?? 'ready'
  }

  async function seen(network: NetworkId, isExclusive: boolean, key: OwnKey): Promise<KeySeen> {
    const reading = await memoized(readings, key, () => cachedRead(() => key.readState()))()
    const address = key.id.slice(key.id.lastIndexOf(':') + 1)
    return {
      labels: { network, key: address },
      state: await stateOf(key, isExclusive, reading),
      found: reading.value,
    }
  }

  return async () => {
    const [ready, isShared, waiting, keys] = await Promise.all([
      readiness(),
      counters.isShared?.(),
      backlog(),
      Promise.all(
        chains.settlers.flatMap(({ network, isExclusive, keys = [] }) =>
          keys.map((key) => seen(network, isExclusive === true, key)),
        ),
      ),
    ])
    const found = keys.flatMap(({ labels, found }) => (found === undefined ? [] : [{ labels, found }]))
    return [
      gauge('tollgate_build_info', 'The running version. The value is always 1.', [
        [{ version: version(), node: process.version }, 1],
      ]),
      // After a failed read, the last counts are out of date, so they are left out.
      ...(waiting.fault === undefined ? backlogGauges(waiting.value!) : []),
      jobsGauge(),
      gauge(
        'tollgate_ready',
        '1 if a part of the gateway works, else 0. /readyz responds with 200 only while all parts are 1.',
        ready.map(({ part, network, problems }) => [
          { part, network: network ?? '' },
          Number(problems.length === 0),
        ]),
      ),
      gauge(
        'tollgate_redis_up',
        '1 if the processes share their counters in Redis. At 0, each process counts rate limits separately, and calls continue.',
        isShared === undefined ? [] : [[{}, Number(isShared)]],
      ),
      gauge(
        'tollgate_settling_key_state',
        'State of a settling key, as seen by this process. The value is 1 for the current state and 0 for the other states.',
        keys.flatMap(({ labels, state }) =>
          keyStates.map((name): Sample => [{ ...labels, state: name }, Number(name === state)]),
        ),
      ),
      gauge(
        'tollgate_settling_key_balance_coins',
        "Last known balance of a settling key's account, in the network's native coin (ETH, SOL).",
        found.map(({ labels, found }) => [
          labels,
          Number(found.balance) / (labels.network.startsWith('solana:') ? 1e9 : 1e18),
        ]),
      ),
      gauge(
        'tollgate_settling_key_payments_left',
        'Number of settlements that the balance of a settling key covers at the current maximum cost.',
        found.map(({ labels, found }) => [labels, Number(found.paymentsLeft)]),
      ),
      gauge(
        'tollgate_settling_key_in_flight',
        'Number of transactions (EVM) or payments (Solana) that this process has sent with a settling key and that are not yet confirmed on chain.',
        found.map(({ labels, found }) => [labels, found.inFlight]),
      ),
    ].join('')
  }
}

/**
 * The time of each job's last success, in seconds since 1970. If several jobs have the same name, the oldest success counts. A
 * job that has never succeeded has the time of its start.
 */
function jobsGauge(): string {
  const seconds = new Map<string, number>()
  for (const { name, startedAtMs, lastSuccessAtMs = startedAtMs } of runningJobs)
    seconds.set(name, Math.min(seconds.get(name) ?? Number.POSITIVE_INFINITY, lastSuccessAtMs / 1_000))
  return gauge(
    'tollgate_job_last_success_timestamp_seconds',
    'Time of the last successful run of a background job, in seconds since 1970. If no run has succeeded, the start of the job.',
    [...seconds].map(([name, at]): Sample => [{ name }, at]),
  )
}

const backlogGauges = ({ open, refundsDue, webhooksWaiting, linksSuspended }: Backlog): string[] => [
  gauge(
    'tollgate_payments_open',
    'Number of open payments of the installation, by state.',
    Object.entries(open).map(([state, total]): Sample => [{ state }, total]),
  ),
  gauge('tollgate_refunds_due', 'Number of payments of the installation for which a seller owes a refund.', [
    [{}, refundsDue],
  ]),
  gauge(
    'tollgate_webhook_deliveries_waiting',
    'Number of webhook deliveries of the installation that wait for their next attempt.',
    [[{}, webhooksWaiting]],
  ),
  gauge('tollgate_links_suspended', 'Number of suspended links of the installation.', [[{}, linksSuspended]]),
]

function memoized<T>(all: WeakMap<OwnKey, T>, key: OwnKey, make: (key: OwnKey) => T): T {
  let one = all.get(key)
  if (one === undefined) all.set(key, (one = make(key)))
  return one
}

type Sample = readonly [labels: Readonly<Record<string, string>>, value: number]

/**
 * One metric in the Prometheus text format. Empty without samples. Label values are networks, addresses and fixed words, so
 * they need no escaping.
 */
function gauge(name: string, help: string, samples: readonly Sample[]): string {
  if (samples.length === 0) return ''
  const lines = samples.map(([labels, value]) => {
    const inner = Object.entries(labels).map(([label, text]) => `${label}="${text}"`)
    return `${name}${inner.length === 0 ? '' : `{${inner.join(',')}}`} ${value}\n`
  })
  return `# HELP ${name} ${help}\n# TYPE ${name} gauge\n${lines.join('')}`
}
