import t, { type Test } from 'tap'
import { TollgateError } from '../../core/errors/error.ts'
import type { CallCounts, ProcessCalls } from '../../core/ports/callCounts.ts'
import { callAsOperator, startWithOperator } from '../../test/helpers/admin-api/operator.ts'
import { readEvents } from '../../test/helpers/admin-api/readEvents.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { createLiveCalls, type LiveCalls } from './liveCalls.ts'

const none: CallCounts = {
  ...{ asked: 0, paid: 0, answered: 0, repeated: 0, pending: 0 },
  ...{ refused: 0, failed: 0, free: 0, left: 0 },
}

/** A service whose processes count what a test says. */
async function service(t: Test) {
  const fleet = { polls: 0, processes: [] as ProcessCalls[] }
  const count = (process: string, more: Partial<CallCounts>, underWay = 0): ProcessCalls => ({
    process,
    calls: { ...none, ...more, underWay },
  })
  const f = await startWithOperator(t, {
    async callCounts() {
      fleet.polls++
      return fleet.processes
    },
  })
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  const operator = await callAsOperator(f)
  const { cookie } = operator.headers
  const open = (init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${port}/api/operator/live`, { headers: { cookie }, ...init })
  return { f, fleet, count, open, operator }
}

t.test('what all processes count is told together, each second, until the operator signs out', async (t) => {
  const { fleet, count, open, operator } = await service(t)
  fleet.processes = [count('a', { asked: 100 }), count('b', { asked: 50, free: 7 })]
  const response = await open()
  t.equal(response.status, 200)
  t.match(response.headers.get('content-type'), /^text\/event-stream/)
  t.match(response.headers.get('cache-control'), /no-store.*no-transform/)
  const reportedRows: LiveCalls[] = []
  let last = ''
  for await (const { event, data } of readEvents<LiveCalls>(response)) {
    last = event
    if (event !== 'calls') continue
    reportedRows.push(data)
    if (reportedRows.length === 1)
      fleet.processes = [
        count('a', { asked: 103, paid: 2, answered: 1 }, 1),
        count('b', { asked: 54, free: 7, failed: 1 }, 2),
      ]
    if (reportedRows.length === 2) await operator.ask('DELETE', '/api/operator/session')
  }
  t.equal(last, 'ended')
  t.equal(reportedRows.length, 2)
  t.match(reportedRows[0], { ...none, underWay: 0, processes: 2, silent: 0 }, 'what was before is not told')
  t.match(reportedRows[1], { asked: 7, paid: 2, answered: 1, failed: 1, free: 0, underWay: 3, processes: 2 })
  t.ok(reportedRows[1]!.spanMs > 0)
})

t.test('a store that cannot be asked signs nobody out; the calls go on when it can', async (t) => {
  const { f, fleet, count, open } = await service(t)
  fleet.processes = [count('a', {})]
  const response = await open()
  const { browserSessions } = f.db
  const { byHash } = browserSessions
  let refusals = 0
  const seen: string[] = []
  for await (const { event } of readEvents<LiveCalls>(response)) {
    seen.push(event)
    if (seen.length === 2 || event === 'ended') break
    browserSessions.byHash = async (...args) => {
      if (++refusals === 1) throw new TollgateError('store_unavailable')
      return byHash(...args)
    }
  }
  t.same(seen, ['calls', 'calls'])
  t.ok(refusals > 1)
})

t.test('nobody is asked while nobody watches, and a page that leaves is forgotten', async (t) => {
  const { fleet, count, open } = await service(t)
  fleet.processes = [count('a', {})]
  t.equal(fleet.polls, 0)
  const leaver = new AbortController()
  const streams = await Promise.all(
    Array.from({ length: 8 }, (_, i) => open(i === 0 ? { signal: leaver.signal } : {})),
  )
  t.strictSame(new Set(streams.map(({ status }) => status)), new Set([200]), 'there is room for eight')
  t.equal((await open()).status, 429)
  const pollsBefore = fleet.polls
  await until(() => fleet.polls > pollsBefore, 'a look')
  leaver.abort()
  await until(async () => (await open()).status === 200, 'the place of who left')
})

t.test('strangers, and sellers, follow nothing', async (t) => {
  const { f, open, fleet } = await service(t)
  const { key } = await f.store()
  t.equal((await open({ headers: {} })).status, 401)
  t.equal((await open({ headers: { authorization: `Bearer ${key}` } })).status, 401)
  const { cookie } = (await callAsOperator(f)).headers
  t.equal((await open({ headers: { cookie, 'sec-fetch-site': 'cross-site' } })).status, 403)
  t.equal(fleet.polls, 0)
})

t.test('a process that is late, was started anew or joins makes no calls of nothing', async (t) => {
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  const counted = (process: string, args?: number): ProcessCalls => ({
    process,
    calls: args === undefined ? undefined : { ...none, asked: args, underWay: 0 },
  })
  const polls = [
    [counted('1', 1_000), counted('2')],
    [counted('1', 1_001), counted('2', 500)],
    [counted('1'), counted('2', 502)],
    // The first has ended, and another was started in its place.
    [counted('2', 502), counted('3', 9)],
    [counted('2', 503), counted('3', 10)],
  ]
  let look = 0
  const live = createLiveCalls({
    log,
    pollMs: 1,
    read: async () => polls[look++] ?? polls.at(-1)!,
  })
  const reportedRows: [asked: number, processes: number, silent: number][] = []
  const stop = live.watch(({ asked: requests, processes, silent }) => {
    reportedRows.push([requests, processes, silent])
    if (reportedRows.length === 4) stop()
  })
  await until(() => reportedRows.length === 4, 'four looks')
  t.strictSame(reportedRows, [
    [1, 2, 0],
    [2, 2, 1],
    [0, 2, 0],
    [2, 2, 0],
  ])
})
