import type { Look } from '../../admin-api/deps.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import { leaseNameOf } from '../../core/payments/keyLease.ts'
import type { KeyTrouble, OwnKey, SettlingKey } from '../../core/ports/chains/settler.ts'
import type { Counters } from '../../core/ports/counters.ts'
import type { Metrics, MetricsSource } from '../../core/ports/metrics.ts'
import type { Leases } from '../../core/ports/store/leases.ts'
import type { Backlog, Oversight } from '../../core/ports/store/oversight.ts'
import { version } from '../version.ts'
import { keptLook } from './keptLook.ts'
import type { OpenChains } from './open/openChains.ts'
import type { PartOfReadiness } from './readiness.ts'

export interface StandingParts {
  readonly readiness: () => Promise<readonly PartOfReadiness[]>
  readonly chains: Pick<OpenChains, 'settlers'>
  readonly counters: Pick<Counters, 'isShared'>
  readonly leases: Pick<Leases, 'holderOf'>
  readonly oversight: Pick<Oversight, 'backlog'>
}

/**
 * How a settling key stands, as this process sees it. `unreachable`: no node says. `out_of_gas`: it can't pay for one settlement more.
 * `unleased`: no process may sign with it. `elsewhere`: another process of this installation does. `unknown`: the store can't say.
 * The others are those of {@link KeyTrouble}.
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

/** Asked at once by Prometheus and by people: the store is asked for who has a key no more often than this, in ms. */
const HOLDER_AGE_MS = 1_000
/** The database is counted no more often than this, however many scrape. */
const BACKLOG_AGE_MS = 10_000

/**
 * Puts behind what the plugins say how the service itself stands: the parts of `/readyz`, Redis, and each settling key. Nothing of it
 * is looked at while nobody reads, and nobody who is away keeps the reader waiting. Without the plugin there is none of it either.
 */
export function withStanding(
  metrics: Pick<Metrics, 'source'>,
  parts: StandingParts,
): Pick<Metrics, 'source'> {
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
  /** As it was last found. */
  readonly found: SettlingKey | undefined
}

function createStandingText({
  readiness,
  chains,
  counters,
  leases,
  oversight,
}: StandingParts): () => Promise<string> {
  const backlog = keptLook(() => oversight.backlog(), Date.now, { ageMs: BACKLOG_AGE_MS, patienceMs: 1_000 })
  const looks = new WeakMap<OwnKey, () => Promise<Look<SettlingKey>>>()
  const holders = new WeakMap<OwnKey, ReturnType<typeof lookForHolder>>()

  const lookForHolder = (key: OwnKey) =>
    keptLook(() => leases.holderOf(leaseNameOf(key.id)), Date.now, {
      ageMs: HOLDER_AGE_MS,
      patienceMs: 1_000,
    })

  async function stateOf(key: OwnKey, isExclusive: boolean, { value, fault }: Look<SettlingKey>) {
    if (fault !== undefined || value === undefined) return 'unreachable'
    if (value.paymentsLeft < 1n) return 'out_of_gas'
    if (isExclusive) {
      const holder = await kept(holders, key, lookForHolder)()
      if (holder.fault !== undefined) return 'unknown'
      if (holder.value === undefined) return 'unleased'
      if (holder.value.process?.isThis === false) return 'elsewhere'
    }
    return value.trouble?.kind ?? 'ready'
  }

  async function seen(network: NetworkId, isExclusive: boolean, key: OwnKey): Promise<KeySeen> {
    const look = await kept(looks, key, () => keptLook(() => key.look()))()
    const address = key.id.slice(key.id.lastIndexOf(':') + 1)
    return {
      labels: { network, key: address },
      state: await stateOf(key, isExclusive, look),
      found: look.value,
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
      gauge('tollgate_build_info', 'The version that runs: always 1.', [
        [{ version: version(), node: process.version }, 1],
      ]),
      // What was counted before the database went away says nothing about now.
      ...(waiting.fault === undefined ? backlogGauges(waiting.value!) : []),
      gauge(
        'tollgate_ready',
        'Whether a part of /readyz can work; it answers 200 while all of them are 1.',
        ready.map(({ part, network, problems }) => [
          { part, network: network ?? '' },
          Number(problems.length === 0),
        ]),
      ),
      gauge(
        'tollgate_redis_up',
        'Whether Redis counts; at 0 each process counts by itself, and calls go on.',
        isShared === undefined ? [] : [[{}, Number(isShared)]],
      ),
      gauge(
        'tollgate_settling_key_state',
        'How a settling key stands, as this process sees it: 1 for the one state that it is in.',
        keys.flatMap(({ labels, state }) =>
          keyStates.map((name): Sample => [{ ...labels, state: name }, Number(name === state)]),
        ),
      ),
      gauge(
        'tollgate_settling_key_balance_coins',
        "What a settling key's account has, in coins of its network (ETH, SOL), as it was last found.",
        found.map(({ labels, found }) => [
          labels,
          Number(found.balance) / (labels.network.startsWith('solana:') ? 1e9 : 1e18),
        ]),
      ),
      gauge(
        'tollgate_settling_key_payments_left',
        'How many more settlements the gas of a settling key pays for, at what each may have to cost now.',
        found.map(({ labels, found }) => [labels, Number(found.paymentsLeft)]),
      ),
      gauge(
        'tollgate_settling_key_in_flight',
        'Transactions (EVM) or payments (Solana) that this process has sent with a settling key, and that are not known to be on chain.',
        found.map(({ labels, found }) => [labels, found.inFlight]),
      ),
    ].join('')
  }
}

const backlogGauges = ({ open, refundsDue, webhooksWaiting, linksSuspended }: Backlog): string[] => [
  gauge(
    'tollgate_payments_open',
    'Payments of the installation that are not over, by state.',
    Object.entries(open).map(([state, total]): Sample => [{ state }, total]),
  ),
  gauge('tollgate_refunds_due', 'Payments of the installation that were charged and have to be paid back.', [
    [{}, refundsDue],
  ]),
  gauge(
    'tollgate_webhook_deliveries_waiting',
    'Webhook deliveries of the installation that wait for a try.',
    [[{}, webhooksWaiting]],
  ),
  gauge('tollgate_links_suspended', 'Links of the installation that are suspended.', [[{}, linksSuspended]]),
]

function kept<T>(all: WeakMap<OwnKey, T>, key: OwnKey, make: (key: OwnKey) => T): T {
  let one = all.get(key)
  if (one === undefined) all.set(key, (one = make(key)))
  return one
}

type Sample = readonly [labels: Readonly<Record<string, string>>, value: number]

/** One family in Prometheus's text format; nothing where there are no samples. Labels are networks, addresses and words of ours. */
function gauge(name: string, help: string, samples: readonly Sample[]): string {
  if (samples.length === 0) return ''
  const lines = samples.map(([labels, value]) => {
    const inner = Object.entries(labels).map(([label, text]) => `${label}="${text}"`)
    return `${name}${inner.length === 0 ? '' : `{${inner.join(',')}}`} ${value}\n`
  })
  return `# HELP ${name} ${help}\n# TYPE ${name} gauge\n${lines.join('')}`
}
