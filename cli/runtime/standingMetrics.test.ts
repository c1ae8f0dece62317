import t from 'tap'
import type { NetworkId } from '../../core/domain/network.ts'
import { startJob } from '../../core/jobs/job.ts'
import type { OwnKey, Settler, SettlingKey } from '../../core/ports/chains/settler.ts'
import { silentLog } from '../../core/ports/log.ts'
import type { LeaseHolder } from '../../core/ports/store/leases.ts'
import { createReadiness } from './readiness.ts'
import { withStanding } from './standingMetrics.ts'

const network: NetworkId = 'eip155:84532'
const key: SettlingKey = {
  address: '0xAbC',
  balance: 25n * 10n ** 16n,
  paymentsLeft: 400n,
  inFlight: 3,
  nonce: { mined: 1, pending: 1 },
}
const here: LeaseHolder = { id: 1, endsInMs: 9_000, process: { id: 7, isThis: true } }

const waiting = {
  open: { claimed: 1, settling: 2, pending: 3 },
  refundsDue: 4,
  webhooksWaiting: 5,
  linksSuspended: 6,
}

interface Scene {
  /** The problems that the database and the settler report; an error if they do not respond. */
  readonly store?: readonly string[] | Error
  readonly settler?: readonly string[] | Error | 'silent'
  readonly found?: SettlingKey | Error
  readonly holder?: LeaseHolder | undefined | Error
  readonly isShared?: boolean
  readonly isSettledElsewhere?: boolean
  readonly backlog?: Error
  readonly missing?: readonly NetworkId[]
}

const result = async <T>(response: T | Error): Promise<T> => {
  if (response instanceof Error) throw response
  return response
}

function startStanding(scene: Scene) {
  const own: OwnKey = { id: `evm:${network}:0xabc`, readState: () => result(scene.found ?? key) }
  const settler = {
    id: own.id,
    network,
    isExclusive: true,
    keys: [own],
    diagnose: () =>
      scene.settler === 'silent'
        ? new Promise<string[]>(() => {})
        : result([...((scene.settler ?? []) as string[])]),
  } as unknown as Settler
  if (scene.settler instanceof Error) settler.diagnose = () => Promise.reject(scene.settler)
  const chains = { settlers: [settler], missing: scene.missing ?? [] }
  const holder = 'holder' in scene ? scene.holder : here
  const leases = { holderOf: () => result(holder) }
  const store = { health: async () => [...(await result(scene.store ?? []))], leases }
  const { isSettledElsewhere = false, isShared } = scene
  const readiness = createReadiness({
    store: store as never,
    chains,
    starts: { waiting: new Set() },
    isSettledElsewhere,
  })
  const operatorView = { backlog: () => result(scene.backlog ?? waiting) }
  const metrics = withStanding(
    { source: { contentType: 'text/plain', text: async () => '# of the plugins\n' } },
    {
      readiness,
      chains,
      leases,
      operatorView,
      counters: isShared === undefined ? {} : { isShared: async () => isShared },
    },
  )
  return { readiness, text: () => metrics.source!.text() }
}

/** The samples that are not zero, by metric name without its prefix. */
async function nonZero(scene: Scene, name: string): Promise<string[]> {
  const lines = (await startStanding(scene).text()).split('\n')
  return lines.filter((line) => line.startsWith(`tollgate_${name}`) && !line.endsWith(' 0'))
}

t.test('what is well is told in families with help and type, behind those of the plugins', async (t) => {
  const jobs = [1, 2].map(() =>
    startJob({ name: 'read messages', everyMs: 60_000, log: silentLog, run() {} }),
  )
  const broken = startJob({
    name: 'never succeeds',
    everyMs: 60_000,
    log: silentLog,
    run: () => Promise.reject(new Error('broken')),
  })
  t.teardown(() => Promise.all([...jobs, broken].map((job) => job.stop())))
  for (const job of [...jobs, broken]) await job.runNow()
  const text = await startStanding({ isShared: true }).text()
  t.ok(text.startsWith('# of the plugins\n'))
  const labels = 'network="eip155:84532",key="0xabc"'
  for (const line of [
    'tollgate_ready{part="database",network=""} 1',
    'tollgate_ready{part="settler",network="eip155:84532"} 1',
    'tollgate_redis_up 1',
    `tollgate_job_last_success_timestamp_seconds{name="read messages"} ${jobs[0]!.lastSuccessAtMs! / 1_000}`,
    `tollgate_job_last_success_timestamp_seconds{name="never succeeds"} ${broken.startedAtMs / 1_000}`,
    'tollgate_payments_open{state="pending"} 3',
    'tollgate_refunds_due 4',
    'tollgate_webhook_deliveries_waiting 5',
    'tollgate_links_suspended 6',
    `tollgate_settling_key_state{${labels},state="ready"} 1`,
    `tollgate_settling_key_state{${labels},state="out_of_gas"} 0`,
    `tollgate_settling_key_balance_coins{${labels}} 0.25`,
    `tollgate_settling_key_payments_left{${labels}} 400`,
    `tollgate_settling_key_in_flight{${labels}} 3`,
  ])
    t.ok(text.includes(`\n${line}\n`), line)
  const families = [...text.matchAll(/^# TYPE (\S+) gauge$/gm)].map(([, name]) => name)
  t.match(text, /^tollgate_build_info\{version="\d+\.\d+\.\d+",node="v\d+\.\d+\.\d+"\} 1$/m)
  t.equal(new Set(families).size, 12)
  for (const name of families) t.match(text, new RegExp(`^# HELP ${name} .`, 'm'))
  for (const line of text.trim().split('\n').slice(1))
    if (!line.startsWith('#')) t.match(line, /^tollgate_[a-z_]+(\{([a-z]+="[^"\\]*",?)+\})? [0-9.e+]+$/)
})

t.test('each part of /readyz is 0 with its reasons, and none keeps another from being told', async (t) => {
  t.strictSame(await nonZero({ store: ['full'] }, 'ready'), [
    'tollgate_ready{part="settler",network="eip155:84532"} 1',
  ])
  t.strictSame(await nonZero({ store: new Error('gone'), settler: new Error('gone') }, 'ready'), [])
  t.strictSame(await nonZero({ missing: ['eip155:1'] }, 'ready'), [
    'tollgate_ready{part="database",network=""} 1',
    'tollgate_ready{part="settler",network="eip155:84532"} 1',
  ])
  t.strictSame(await nonZero({ isSettledElsewhere: true, holder: undefined }, 'ready'), [
    'tollgate_ready{part="database",network=""} 1',
  ])
  t.strictSame(await nonZero({ isShared: false }, 'redis_up'), [])
  t.notMatch(await startStanding({}).text(), /redis/, 'a gateway that counts by itself has none')
})

t.test('a settler that never answers is named, and keeps nobody waiting', async (t) => {
  const { readiness } = startStanding({ settler: 'silent' })
  const parts = await readiness()
  t.match(parts, [
    { part: 'database', problems: [] },
    { part: 'settler', network, problems: [/^eip155:84532: no response in \d+ s$/] },
  ])
})

t.test('a key has one state at a time, and why it is passed over is it', async (t) => {
  const elsewhere: LeaseHolder = { id: 2, endsInMs: 9_000, process: { id: 8, isThis: false } }
  const cases: readonly (readonly [string, Scene])[] = [
    ['out_of_gas', { found: { ...key, paymentsLeft: 0n } }],
    ['elsewhere', { holder: elsewhere }],
    ['unleased', { holder: undefined }],
    ['unknown', { holder: new Error('the store is away') }],
    ['unreachable', { found: new Error('no node') }],
    ...(['shared', 'stuck', 'low'] as const).map((kind) => {
      return [kind, { found: { ...key, trouble: { kind, words: 'It is.' } } }] as const
    }),
  ]
  for (const [state, scene] of cases)
    t.strictSame(await nonZero(scene, 'settling_key_state'), [
      `tollgate_settling_key_state{network="eip155:84532",key="0xabc",state="${state}"} 1`,
    ])
})
