import { setImmediate as nextTurn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { silentLog } from '../../core/ports/log.ts'
import { CHECKS_AT_ONCE, type Check } from '../../core/ports/store/healthChecks.ts'
import { HOUR_MS } from '../../core/ports/store/stats.ts'
import { sampleKey, sampleLink, sampleStore, startMs } from '../../test/contracts/samples.ts'
import { openTestStore } from '../../test/helpers/store/testStore.ts'
import { createProber } from './prober.ts'

const MINUTE_MS = 60_000

/** A prober in simulated time: waits are woken in order, and nothing else takes time. */
async function startProber(t: Test, links: number, { probesPerSecond = 20, origins = links } = {}) {
  let monotonicMs = 0
  let offsetMs = startMs
  const sleepers: { atMs: number; wake(): void }[] = []
  const sleep = (ms: number) =>
    new Promise<void>((wake) => void sleepers.push({ atMs: monotonicMs + ms, wake }))
  const clock = { now: () => offsetMs + Math.floor(monotonicMs) }
  const store = openTestStore({ clock })
  await store.stores.create(sampleStore('s1'), null, sampleKey('k1', 's1'))
  for (let i = 0; i < links; i++)
    await store.links.create(sampleLink(`l${i}`, 's1', { url: `https://seller-${i % origins}.test/${i}` }))
  const requests: { linkId: string; atMs: number }[] = []
  const under = new Map<string, number>()
  let maxUnder = 0
  const mood = {
    failing: new Set<string>(),
    hanging: new Set<string>(),
    isMine: true,
    noted: 0,
    refusesEach: 0,
  }
  const stopping = new AbortController()
  /** Writes as many at once as a database does, and refuses some of them. */
  async function note(checks: readonly Check[]): Promise<void> {
    for (let i = 0; i < checks.length; i += CHECKS_AT_ONCE) {
      if (++mood.noted % mood.refusesEach === 0) throw new Error('the disk is full')
      await store.healthChecks.note(checks.slice(i, i + CHECKS_AT_ONCE))
    }
  }
  const prober = createProber({
    healthChecks: { ...store.healthChecks, note },
    clock,
    log: silentLog,
    pause: sleep,
    intervalMs: MINUTE_MS,
    probesPerSecond,
    calledForMs: HOUR_MS,
    isMine: () => mood.isMine,
    async probe({ linkId, url }) {
      requests.push({ linkId, atMs: monotonicMs })
      const { origin } = new URL(url)
      under.set(origin, (under.get(origin) ?? 0) + 1)
      maxUnder = Math.max(maxUnder, under.get(origin)!)
      await sleep(mood.hanging.has(linkId) ? 5_000 : 50)
      under.set(origin, under.get(origin)! - 1)
      const ok = !mood.failing.has(linkId) && !mood.hanging.has(linkId)
      return { report: { ok, status: 200, latencyMs: 50, detail: '' }, isFailing: !ok }
    },
  })
  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      const waitMs = await prober.turn(stopping.signal)
      if (waitMs > 0) await sleep(waitMs)
    }
    await prober.write()
  }
  const running = run()
  async function go(ms: number): Promise<void> {
    const untilMs = monotonicMs + ms
    for (;;) {
      await nextTurn()
      const next = sleepers.reduce((first, one) => Math.min(first, one.atMs), Number.POSITIVE_INFINITY)
      if (next > untilMs) break
      monotonicMs = next
      const due = sleepers.filter(({ atMs }) => atMs === next)
      for (const one of due) sleepers.splice(sleepers.indexOf(one), 1)
      for (const { wake } of due) wake()
    }
    monotonicMs = untilMs
  }
  t.teardown(async () => {
    stopping.abort()
    for (const { wake } of sleepers) wake()
    await running
  })
  return {
    requests,
    mood,
    go,
    links: store.links,
    healthChecks: store.healthChecks,
    get maxUnder() {
      return maxUnder
    },
    stepClock: (ms: number) => void (offsetMs += ms),
    call: (linkId: string) =>
      store.stats.addTraffic([
        {
          linkId,
          hour: Math.floor(clock.now() / HOUR_MS),
          calls: 1,
          failedCalls: 0,
          views: 0,
          challenges: 0,
        },
      ]),
    timesOf: (linkId: string) => requests.filter((one) => one.linkId === linkId).map(({ atMs }) => atMs),
    /** The maximum that began in any second. */
    peak() {
      const seconds = Map.groupBy(requests, ({ atMs }) => Math.floor(atMs / 1_000))
      return Math.max(...[...seconds.values()].map((one) => one.length))
    },
  }
}

t.test('where there is time for all, each link is asked every minute, with jitter', async (t) => {
  const { go, timesOf, requests, peak } = await startProber(t, 30)
  await go(10 * MINUTE_MS)
  for (let i = 0; i < 30; i++) {
    const times = timesOf(`l${i}`)
    t.ok(times.length >= 8 && times.length <= 11, `${times.length} in ten minutes`)
    for (const [n, atMs] of times.slice(1).entries())
      t.ok(atMs - times[n]! >= 50_000 && atMs - times[n]! <= 70_000)
  }
  t.ok(peak() <= 25)
  // After some minutes nothing is left of their common beginning.
  const late = requests.filter(({ atMs }) => atMs > 9 * MINUTE_MS).map(({ atMs }) => Math.floor(atMs / 1_000))
  t.ok(new Set(late).size > 10, 'spread over the minute')
})

t.test('where there is not, called links keep their minute and the others take turns', async (t) => {
  const { go, call, timesOf, requests, peak } = await startProber(t, 600, { probesPerSecond: 4 })
  await go(1_000)
  for (const id of ['l550', 'l575']) await call(id)
  await go(10 * MINUTE_MS)
  for (const id of ['l550', 'l575']) {
    const { length } = timesOf(id)
    t.ok(length >= 8 && length <= 12, `${length} checks of a called link`)
  }
  t.ok(peak() <= 8, 'no burst')
  const others = Map.groupBy(requests, ({ linkId }) => linkId)
  for (const [id, { length }] of others) if (!['l550', 'l575'].includes(id)) t.ok(length <= 5, id)
  t.equal(others.size, 600, 'everyone had a turn')
  await go(HOUR_MS)
  const before = timesOf('l550').length
  await go(10 * MINUTE_MS)
  t.ok(timesOf('l550').length - before <= 5, 'an hour after its call it is one of the others')
})

t.test(
  'one that failed is asked every minute, and many that fail keep no called one from its turn',
  async (t) => {
    const { go, call, timesOf, mood } = await startProber(t, 600, { probesPerSecond: 4 })
    mood.failing.add('l3')
    await go(10 * MINUTE_MS)
    t.ok(timesOf('l3').length >= 8)
    for (let i = 0; i < 500; i++) mood.failing.add(`l${i}`)
    await call('l550')
    await go(30 * MINUTE_MS)
    const before = timesOf('l550').length
    const othersBefore = timesOf('l599').length
    await go(20 * MINUTE_MS)
    t.ok(timesOf('l550').length - before >= 16)
    t.ok(timesOf('l599').length > othersBefore, 'nor the others')
  },
)

t.test('an origin whose APIs hang has few checks at once, and keeps nobody else from his turn', async (t) => {
  const f = await startProber(t, 400, { probesPerSecond: 10, origins: 2 })
  for (let i = 0; i < 400; i += 2) f.mood.hanging.add(`l${i}`)
  await f.go(5 * MINUTE_MS)
  t.ok(f.maxUnder <= 8, `${f.maxUnder} at once`)
  for (let i = 1; i < 400; i += 2) t.ok(f.timesOf(`l${i}`).length >= 3, `l${i}`)
  t.ok(new Set(f.requests.map(({ linkId }) => linkId)).size > 300, 'those that hang have their turn, too')
})

t.test('a clock that is set neither silences nor floods', async (t) => {
  for (const stepMs of [-30 * 24 * HOUR_MS, -10 * MINUTE_MS, 10 * MINUTE_MS, 30 * 24 * HOUR_MS]) {
    const { go, stepClock, requests, peak, timesOf } = await startProber(t, 100, { probesPerSecond: 5 })
    await go(5 * MINUTE_MS)
    stepClock(stepMs)
    const before = requests.length
    await go(5 * MINUTE_MS)
    t.ok(requests.length - before >= 400, `${requests.length - before} after a step of ${stepMs}`)
    t.ok(peak() <= 10)
    for (let i = 0; i < 100; i++) t.ok(timesOf(`l${i}`).at(-1)! > 8 * MINUTE_MS)
  }
})

t.test('whoever is not the one that asks is silent', async (t) => {
  const { go, requests, mood } = await startProber(t, 10)
  mood.isMine = false
  await go(5 * MINUTE_MS)
  t.ok(requests.length <= 10)
  const before = requests.length
  mood.isMine = true
  await go(2 * MINUTE_MS)
  t.ok(requests.length >= before + 10)
})

t.test('what a store refused to write for a while is counted once', async (t) => {
  const f = await startProber(t, 600)
  f.mood.refusesEach = 2
  await f.go(2 * MINUTE_MS)
  f.mood.refusesEach = 0
  f.mood.isMine = false
  await f.go(MINUTE_MS)
  const hours = await Promise.all(Array.from({ length: 600 }, (_, i) => f.healthChecks.hours(`l${i}`, 0)))
  const checks = hours.flat().reduce((sum, one) => sum + one.checks, 0)
  t.equal(checks, f.requests.length)
})
