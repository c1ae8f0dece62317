import { setTimeout as sleep } from 'node:timers/promises'
import { array, assert, asyncProperty, boolean, integer, nat, record } from 'fast-check'
import t, { type Test } from 'tap'
import { createChanges, createJobChannel } from '../../adapters/memory/changes.ts'
import type { Link, ServedLink } from '../../core/domain/link.ts'
import {
  freshHealth,
  type HealthObservation,
  type HealthState,
  observe,
} from '../../core/domain/suspension.ts'
import { silentLog } from '../../core/ports/log.ts'
import { TrafficCounts } from '../../core/stats/trafficCounts.ts'
import { sampleLink, startMs } from '../../test/contracts/samples.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { type CallNote, CallNotes, LinkCalls } from './callNotes.ts'
import { Judge } from './judge.ts'

const MINUTE_MS = 60_000

const linkOf = (id: string): Link => ({ ...sampleLink(id, 's1', { slug: id }), suspension: null, version: 1 })

/** A judge of links that the database may have, whose APIs never respond to a probe. */
function startJudge(t: Test) {
  const clock = { ms: startMs, now: () => clock.ms }
  const stored = new Map<string, Link>()
  const seen = { finds: 0, findsAtOnce: 0, turn: 0 }
  const changes = createChanges()
  const jobChannel = createJobChannel(silentLog)
  const judge = new Judge({
    links: {
      async find(id) {
        if (seen.turn === 0) setImmediate(() => (seen.turn = 0))
        seen.findsAtOnce = Math.max(seen.findsAtOnce, ++seen.turn)
        seen.finds++
        return stored.get(id)
      },
      async setSuspension(id, suspension) {
        stored.set(id, { ...stored.get(id)!, suspension })
      },
      suspensionCount: async () => 0,
      addHealthEvent: async () => undefined,
    },
    counts: new TrafficCounts({ addTraffic: async () => undefined }, silentLog),
    changes,
    jobChannel,
    clock,
    log: silentLog,
    confirmMs: 0,
    probe: async () => ({ ok: false, status: 500, latencyMs: 1, detail: '' }),
    isOffline: () => false,
  })
  t.teardown(() => judge.stop())

  const put = (id: string) => void (stored.has(id) || stored.set(id, linkOf(id)))
  function post(batch: readonly CallNote[]): void {
    for (const { linkId } of batch) put(linkId)
    jobChannel.post('health.calls', batch)
  }

  /** Calls of links that a process saw, in one batch. */
  function call(ids: readonly string[], calls: (calls: LinkCalls) => void): void {
    const notes = new CallNotes(jobChannel)
    for (const id of ids) {
      put(id)
      calls(new LinkCalls({ ...stored.get(id)!, username: 'ann' } as ServedLink, notes))
    }
    notes.flush()
  }
  const idsOf = (count: number) => Array.from({ length: count }, (_, i) => `link-${i}`)
  const isSuspended = (id: string) => (stored.get(id)?.suspension ?? null) !== null
  return { clock, stored, seen, changes, judge, post, call, idsOf, isSuspended }
}

const begins = (calls: LinkCalls) => calls.begins(startMs)

function fails(calls: LinkCalls): void {
  for (let i = 0; i < 20; i++) {
    calls.begins(startMs)
    calls.failed(startMs, false, { caller: [`203.0.113.${i}`], isCharged: false })
  }
}

t.test('a change of a store with thousands of links asks for those alone that are suspended', async (t) => {
  const { changes, call, idsOf, seen, stored, isSuspended, judge } = startJudge(t)
  const ids = idsOf(5_000)
  call(ids, begins)
  const failing = ids.slice(0, 200)
  call(failing, fails)
  await until(() => failing.every(isSuspended), 'the failing ones to be suspended')
  await until(() => judge.size === 5_000)
  const before = seen.finds
  seen.findsAtOnce = 0
  for (let i = 0; i < 20; i++) changes.publish({ kind: 'store', username: 'ann' })
  await until(() => seen.finds - before >= failing.length)
  await sleep(50)
  t.ok(seen.finds - before <= 2 * failing.length, 'however often it changes meanwhile')
  t.equal(seen.findsAtOnce, 1, 'one in a turn of the event loop')

  const [first, second] = failing as [string, string]
  stored.set(first, { ...stored.get(first)!, suspension: null })
  stored.delete(second)
  changes.publish({ kind: 'store', username: 'ben' })
  for (const slug of [first, second]) changes.publish({ kind: 'link', username: 'ann', slug })
  await until(() => judge.size === 4_999, 'the one that is gone to be forgotten')
  call([first], fails)
  await until(() => isSuspended(first), 'the one that is served again to be judged again')
})

t.test('links that nobody calls any more are forgotten, but for those that fail and are there', async (t) => {
  const { clock, call, idsOf, judge, stored } = startJudge(t)
  const ids = idsOf(3_000)
  call(ids, begins)
  await until(() => judge.size === 3_000)
  const [failing, gone] = ids as [string, string]
  for (const linkId of [failing, gone]) judge.probed({ linkId, username: 'ann', slug: linkId }, true, false)
  stored.delete(gone)
  clock.ms += 11 * MINUTE_MS
  call(['another'], (calls) => calls.begins(clock.ms))
  await until(() => judge.size === 2, 'all to be forgotten but the failing one and the one that was called')
  for (let i = 0; i < 4; i++) {
    clock.ms += 2 * MINUTE_MS
    judge.probed({ linkId: failing, username: 'ann', slug: failing }, true, false)
  }
  await until(() => stored.get(failing)!.suspension !== null, 'its first failure to count')
})

/** A link as the rules see it when each note is observed by itself. */
class Followed {
  isSuspended = false
  #state: HealthState = freshHealth

  take(notes: readonly CallNote[], nowMs: number): void {
    const minutes = notes.flatMap((note) => note.minutes)
    for (const { minute, begun: count, served } of minutes) {
      const startedAtMs = minute * MINUTE_MS
      if (count !== 0) this.#observe({ kind: 'calls', count, startedAtMs }, nowMs)
      for (const caller of served) this.#observe({ kind: 'payer-served', startedAtMs, caller }, nowMs)
    }
    for (const { minute, failedBy } of minutes)
      for (const by of failedBy)
        this.#observe({ kind: 'call-failed', startedAtMs: minute * MINUTE_MS, ...by }, nowMs)
  }

  #observe(observation: HealthObservation, nowMs: number): void {
    const { state, suspend } = observe(this.#state, observation, nowMs)
    this.#state = state
    if (suspend !== null) this.isSuspended = true
  }
}

const minutesOf = array(
  record({
    back: nat(11),
    begun: integer({ min: -4, max: 14 }),
    failed: nat(8),
    served: nat(2),
    isCharged: boolean(),
  }),
  { maxLength: 3 },
)

t.test('a link is suspended exactly when the rules say so of each note by itself', async (t) => {
  const links = 100
  const rounds = array(array(minutesOf, { minLength: links, maxLength: links }), {
    minLength: 5,
    maxLength: 5,
  })
  let suspended = 0
  const notes = asyncProperty(rounds, async (rounds) => {
    const { clock, post, isSuspended, idsOf } = startJudge(t)
    const followed = new Map(idsOf(links).map((id) => [id, new Followed()]))
    for (const [round, each] of rounds.entries()) {
      const now = Math.floor(clock.ms / MINUTE_MS)
      const batch = each.map(
        (minutes, i): CallNote => ({
          linkId: `link-${i}`,
          username: 'ann',
          slug: `link-${i}`,
          hasAnswered: false,
          isOffline: false,
          minutes: minutes.map(({ back, begun, failed, served, isCharged }) => ({
            minute: now - back,
            begun,
            failed,
            failedBy: Array.from({ length: failed }, (_, n) => ({ caller: [`203.0.113.${n}`], isCharged })),
            served: Array.from({ length: served }, (_, n) => [`198.51.100.${n}`]),
          })),
        }),
      )
      for (const note of batch) followed.get(note.linkId)!.take([note], clock.ms)
      // Certain to be suspended, and last: the others are judged by then.
      post([...batch, lastOf(`last-${round}`, now)])
      await until(() => isSuspended(`last-${round}`))
      clock.ms += MINUTE_MS
    }
    const expected = [...followed].filter(([, { isSuspended }]) => isSuspended).map(([id]) => id)
    await until(() => expected.every(isSuspended))
    await sleep(50)
    t.strictSame(idsOf(links).filter(isSuspended), expected)
    suspended += expected.length
  })
  await assert(notes, { numRuns: 3 })
  t.ok(suspended > 10 && suspended < 3 * links, 'some were, and some were not')
})

function lastOf(linkId: string, minute: number): CallNote {
  const failedBy = Array.from({ length: 20 }, (_, n) => ({ caller: [`192.0.2.${n}`], isCharged: true }))
  return {
    linkId,
    username: 'ann',
    slug: linkId,
    hasAnswered: false,
    isOffline: false,
    minutes: [{ minute, begun: 20, failed: 20, failedBy, served: [] }],
  }
}
