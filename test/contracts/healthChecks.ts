import type { Test } from 'tap'
import { suspensionAfter } from '../../core/domain/suspension.ts'
import type { Check, CheckQueue, HealthChecks } from '../../core/ports/store/healthChecks.ts'
import type { Links } from '../../core/ports/store/links.ts'
import { DAY_MS, HOUR_MS, type Stats } from '../../core/ports/store/stats.ts'
import type { Stores } from '../../core/ports/store/stores.ts'
import { sampleKey, sampleLink, sampleStore, startMs, type TestClock } from './samples.ts'

interface Under {
  readonly healthChecks: HealthChecks
  readonly links: Links
  readonly stores: Stores
  readonly stats: Stats
  readonly clock: TestClock
}

const MINUTE_MS = 60_000

/** What every store promises of turns and sums of health checks. */
export async function healthChecksContract(t: Test, make: (t: Test) => Promise<Under>): Promise<void> {
  async function start(t: Test, ids: readonly string[] = ['a', 'b']) {
    const under = await make(t)
    await under.stores.create(sampleStore('s1'), null, sampleKey('k1', 's1'))
    for (const [i, id] of ids.entries())
      await under.links.create(
        sampleLink(id, 's1', {
          createdAtMs: startMs + i,
          updatedAtMs: startMs + i,
          url: `https://${id}.test/x`,
        }),
      )
    const due = async (nowMs = startMs + MINUTE_MS, queue: CheckQueue = 'rest', limit = 10) =>
      (await under.healthChecks.due({ queue, nowMs, latestMs: nowMs + 2 * MINUTE_MS, limit })).map(
        ({ linkId }) => linkId,
      )
    const called = (linkId: string, calls = 1) =>
      under.stats.addTraffic([
        {
          ...{ linkId, hour: Math.floor(startMs / HOUR_MS), calls, failedCalls: 0 },
          ...{ views: 1, challenges: 1 },
        },
      ])
    return { ...under, due, called }
  }

  const check = (linkId: string, atMs: number, more: Partial<Check> = {}): Check => ({
    ...{ linkId, atMs, ok: true, status: 200, latencyMs: 10, detail: 'ok' },
    next: { atMs: atMs + MINUTE_MS, isFailing: more.ok === false, calledSinceMs: atMs - HOUR_MS },
    ...more,
  })

  t.test('every callable link has its turn, the longest waiting first', async (t) => {
    const { due, links, healthChecks } = await start(t, ['c', 'a', 'b'])
    await links.create(sampleLink('product', 's1', { linkType: 'standard' }))
    t.strictSame(await due(startMs - 1), [])
    t.strictSame(await due(startMs + 1), ['c', 'a'])
    t.strictSame(await due(), ['c', 'a', 'b'])
    t.strictSame(await due(startMs + MINUTE_MS, 'rest', 2), ['c', 'a'])
    const [first] = await healthChecks.due({
      ...{ queue: 'rest', nowMs: startMs, latestMs: startMs + DAY_MS, limit: 1 },
    })
    t.strictSame(first, {
      ...{ linkId: 'c', storeId: 's1', url: 'https://c.test/x', upstreamHeadersSealed: null },
      ...{ username: sampleStore('s1').username, slug: 'c' },
    })
    await healthChecks.note([check('c', startMs + 2)])
    t.strictSame(await due(), ['a', 'b'])
    t.strictSame(await due(startMs + 2 + MINUTE_MS), ['a', 'b', 'c'])
    await healthChecks.putOff(['a', 'product', 'missing'], startMs + 2 * MINUTE_MS)
    t.strictSame(await due(startMs + 2 * MINUTE_MS), ['b', 'c', 'a'])
  })

  t.test(
    'links that are paused or deleted have none, and those that are back or moved come at once',
    async (t) => {
      const { due, links, healthChecks } = await start(t)
      await healthChecks.note([check('a', startMs + 5), check('b', startMs + 5)])
      t.strictSame(await due(), [])
      await links.update('a', { url: 'https://elsewhere.test' }, startMs + 6)
      await links.update('b', { title: 'New' }, startMs + 6)
      t.strictSame(await due(startMs + 6), ['a'])
      await links.setSuspension('a', suspensionAfter(0, 'down', startMs + 7), startMs + 7)
      t.strictSame(await due(startMs + HOUR_MS), ['b'])
      await healthChecks.note([check('a', startMs + 8)])
      t.strictSame(await due(startMs + HOUR_MS), ['b'], 'what was under way puts it not back')
      await links.setSuspension('a', null, startMs + 9)
      t.strictSame(await due(startMs + 9), ['a'])
      await links.deactivate('b', startMs + 10)
      t.strictSame(await due(startMs + HOUR_MS), ['a'])
      await links.update('a', { isStealth: true, privateSlug: 'secret' }, startMs + 11)
      const [stealth] = await healthChecks.due({
        ...{ queue: 'rest', nowMs: startMs + HOUR_MS, latestMs: startMs + DAY_MS, limit: 9 },
      })
      t.match(stealth, { linkId: 'a', slug: 'secret' })
    },
  )

  t.test('links that are called go before those that failed, and those before all others', async (t) => {
    const { due, called, healthChecks, clock } = await start(t, ['a', 'b', 'c'])
    clock.nowMs = startMs + 5
    await called('b')
    await called('c', -1)
    t.strictSame(await due(startMs + MINUTE_MS, 'called'), ['b'], 'the others were not called')
    t.strictSame(await due(), ['a', 'c'])
    const later = startMs + 10
    await healthChecks.note([
      check('a', later, { ok: false }),
      check('b', later, { ok: false }),
      check('c', later),
    ])
    const nextMs = later + MINUTE_MS
    t.strictSame(await due(nextMs, 'failing'), ['a'])
    t.strictSame(await due(nextMs, 'called'), ['b'])
    t.strictSame(await due(nextMs), ['c'])
    await healthChecks.note([check('a', nextMs), check('b', nextMs + HOUR_MS)])
    t.strictSame(await due(nextMs + 2 * HOUR_MS, 'called'), [], 'its last call is too long ago')
    t.strictSame(await due(nextMs + 2 * HOUR_MS), ['c', 'a', 'b'])
  })

  t.test(
    'a clock that was set back makes no link wait, and one that was set forward forgets none',
    async (t) => {
      const { due, called, healthChecks, clock } = await start(t)
      const wrong = startMs + 40 * DAY_MS
      clock.nowMs = wrong
      await called('a')
      await healthChecks.note([check('a', wrong), check('b', wrong)])
      t.strictSame(await due(wrong), [])
      t.strictSame(await due(startMs, 'called'), ['a'], 'it lies too far ahead')
      t.strictSame(await due(startMs), ['b'])
      await healthChecks.note([check('a', startMs)])
      t.strictSame(await due(startMs + MINUTE_MS, 'called'), [], 'what was not called yet')
      t.strictSame(await due(startMs + MINUTE_MS), ['a', 'b'])
      clock.nowMs = startMs + MINUTE_MS
      await called('a')
      t.strictSame(await due(startMs + MINUTE_MS, 'called'), ['a'])
    },
  )

  t.test('checks add up by hour and day', async (t) => {
    const { healthChecks, stats } = await start(t)
    const hour = Math.floor(startMs / HOUR_MS)
    const atMs = hour * HOUR_MS
    await healthChecks.note([
      check('a', atMs, { latencyMs: 10 }),
      check('a', atMs + 1, { latencyMs: 30.6, ok: false }),
      check('a', atMs + 2, { latencyMs: null, ok: false }),
      check('b', atMs),
    ])
    await healthChecks.note([check('a', atMs + HOUR_MS)])
    t.strictSame(await healthChecks.hours('a', atMs + 5), [
      { hour, checks: 3, failedChecks: 2, latencyMs: 14, maxLatencyMs: 31 },
      { hour: hour + 1, checks: 1, failedChecks: 0, latencyMs: 10, maxLatencyMs: 10 },
    ])
    t.equal((await healthChecks.hours('a', atMs + HOUR_MS)).length, 1)
    t.strictSame(await healthChecks.hours('nobody', 0), [])
    const { days } = await stats.healthDays('a', 0)
    const all = days.reduce(
      (sum, day) => ({ probes: sum.probes + day.probes, failed: sum.failed + day.failedProbes }),
      {
        probes: 0,
        failed: 0,
      },
    )
    t.strictSame(all, { probes: 4, failed: 2 })
  })

  t.test('the timeline has what failed, what passed after it, and the latest', async (t) => {
    const { healthChecks, links } = await start(t)
    const oks = [true, true, false, false, true, true, true]
    for (const [i, ok] of oks.entries()) await healthChecks.note([check('a', startMs + i, { ok })])
    const times = async (limit = 200) =>
      (await links.healthEvents('a', limit)).map(({ atMs }) => atMs - startMs)
    t.strictSame(await times(), [6, 4, 3, 2])
    t.strictSame(await times(1), [6])
    const [latest] = await links.healthEvents('a', 1)
    t.strictSame(latest, {
      ...{
        linkId: 'a',
        atMs: startMs + 6,
        kind: 'probe',
        ok: true,
        status: 200,
        latencyMs: 10,
        detail: 'ok',
      },
    })
    for (let i = 0; i < 230; i++) await healthChecks.note([check('a', startMs + 10 + i, { ok: false })])
    t.equal((await times(1_000)).length, 200, 'one that fails for long does not fill the store')
    t.equal((await times(1))[0], 239)
    t.strictSame(await links.healthEvents('b', 9), [])
  })
}
