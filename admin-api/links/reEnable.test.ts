import t, { type Test } from 'tap'
import { suspensionAfter } from '../../core/domain/suspension.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

const MINUTE_MS = 60_000

async function suspended(t: Test, earlier: number, statuses: number[]) {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const asked = { count: 0 }
  const url = await f.seller((_request, response) => {
    response.writeHead(statuses[asked.count++] ?? 200).end()
  })
  const { id } = (await f.call('POST', '/api/v1/links', { key, body: { url, title: 'Sick' } })).body.data
  await f.db.links.setSuspension(id, suspensionAfter(earlier, 'It failed.', f.clock.nowMs), f.clock.nowMs)
  const reEnable = (headers = {}) => f.call('POST', `/api/v1/links/${id}/re-enable`, { key, headers })
  return { f, key, username, id, requests: asked, reEnable }
}

t.test('during the cooldown the answer says until when, beside the error', async (t) => {
  const { f, reEnable, requests } = await suspended(t, 0, [])
  f.clock.nowMs += 15 * MINUTE_MS - 1
  const { status, body, headers } = await reEnable({ 'content-type': 'application/json' })
  t.equal(status, 409)
  t.same(Object.keys(body).sort(), ['cooldown_until', 'error', 'success'])
  t.equal(body.success, false)
  t.equal(body.error.code, 'RE_ENABLE_FAILED')
  t.equal(body.cooldown_until, new Date(f.clock.nowMs + 1).toISOString())
  t.equal(body.error.retryable, true)
  t.equal(headers['retry-after'], '1')
  t.equal(requests.count, 0)
})

t.test('a permanent suspension says so, beside the error, and is not to be tried again', async (t) => {
  const { f, reEnable } = await suspended(t, 4, [])
  f.clock.nowMs += 365 * 24 * 60 * MINUTE_MS
  const { status, body } = await reEnable()
  t.equal(status, 409)
  t.same(Object.keys(body).sort(), ['error', 'permanent', 'success'])
  t.equal(body.permanent, true)
  t.equal(body.error.code, 'RE_ENABLE_FAILED')
  t.equal(body.error.retryable, false)
})

t.test('after the cooldown two good health checks lift it, and everybody is told', async (t) => {
  const { f, id, key, username, reEnable, requests } = await suspended(t, 0, [200, 402])
  f.clock.nowMs += 15 * MINUTE_MS
  const { status, body } = await reEnable()
  t.equal(status, 200)
  t.same(Object.keys(body).sort(), ['message', 'success'])
  t.equal(body.success, true)
  t.equal(requests.count, 2)
  t.equal((await f.db.links.find(id))!.suspension, null)
  t.same(f.changes.at(-1), { kind: 'link', username, slug: 'sick' })
  const health = await f.call('GET', `/api/v1/links/${id}/health`, { key })
  t.same(health.body.data.events.map((e: { kind: string }) => e.kind).sort(), [
    'probe',
    'probe',
    're-enabled',
  ])
  t.equal(health.body.data.status, 'healthy')
  t.equal((await reEnable()).status, 200, 'repeating it does no harm')
  t.equal(requests.count, 2)
})

t.test('one bad health check of the two leaves it suspended', async (t) => {
  const { f, id, key, reEnable } = await suspended(t, 0, [200, 503])
  f.clock.nowMs += 15 * MINUTE_MS
  const { status, body } = await reEnable()
  t.equal(status, 422)
  t.equal(body.error.code, 'API_NOT_RESPONDING')
  t.match(body.error.message, /check 2 of 2.*503/)
  t.ok((await f.db.links.find(id))!.suspension)
  const read = await f.call('GET', `/api/v1/links/${id}`, { key })
  t.match(read.body.data, {
    health: { status: 'suspended' },
    suspension: { reason: 'It failed.', permanent: false },
  })
  t.same(Object.keys(read.body.data.suspension).sort(), ['cooldownUntil', 'permanent', 'reason', 'since'])
})

t.test('a test run reports what it saw, and goes on the timeline', async (t) => {
  const { f, id, key } = await suspended(t, 0, [500])
  const bad = await f.call('POST', `/api/v1/links/${id}/test`, { key })
  t.equal(bad.status, 200)
  t.same(Object.keys(bad.body.data).sort(), ['checkedAt', 'detail', 'latencyMs', 'ok', 'status'])
  t.match(bad.body.data, { ok: false, status: 500 })
  f.clock.nowMs += 1
  t.match((await f.call('POST', `/api/v1/links/${id}/test`, { key })).body.data, { ok: true, status: 200 })
  const { body } = await f.call('GET', `/api/v1/links/${id}/health?limit=1`, { key })
  t.same(Object.keys(body.data).sort(), ['events', 'hours', 'status', 'suspension'])
  t.equal(body.data.events.length, 1)
  t.match(body.data.events[0], { kind: 'probe', ok: true, status: 200 })
  t.ok((await f.db.links.find(id))!.suspension, 'a test lifts nothing')
  for (const limit of ['0', '201', 'x', '1.5']) {
    const refused = await f.call('GET', `/api/v1/links/${id}/health?limit=${limit}`, { key })
    t.equal(refused.body.error.code, 'VALIDATION_ERROR')
  }
})
