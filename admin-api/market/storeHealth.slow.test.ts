import t, { type Test } from 'tap'
import { suspensionAfter } from '../../core/domain/suspension.ts'
import { DAY_MS, HOUR_MS } from '../../core/ports/store/stats.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

async function shown(t: Test, more: object = {}) {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const url = await f.seller()
  const made = await f.call('POST', '/api/v1/links', {
    key,
    body: { url, title: 'Weather', isPublic: true, ...more },
  })
  const { id, slug, privateSlug } = made.body.data
  const health = (address = `${username}/${slug}`) => f.call('GET', `/api/store/${address}/health`)
  const probe = (agoMs: number, ok: boolean) =>
    f.db.links.addHealthEvent({
      ...{ linkId: id, atMs: f.clock.nowMs - agoMs, kind: 'probe', ok },
      ...{ status: ok ? 200 : 500, latencyMs: 1, detail: '' },
    })
  return { f, key, username, id, slug, privateSlug, health, probe }
}

t.test('thirty days stand there, the oldest first, those without anything too', async (t) => {
  const { f, id, health, probe } = await shown(t)
  f.clock.nowMs += 40 * DAY_MS + 12 * HOUR_MS
  for (const ok of [true, true, true, false]) await probe(2 * DAY_MS, ok)
  await probe(0, true)
  const hour = Math.floor(f.clock.nowMs / HOUR_MS)
  await f.db.stats.addTraffic([
    { linkId: id, hour, views: 5, challenges: 5, calls: 1_000, failedCalls: 1 },
    { linkId: id, hour: hour - 24, views: 0, challenges: 0, calls: 8, failedCalls: 2 },
  ])
  const { status, body, headers } = await health()
  t.equal(status, 200)
  t.equal(headers['access-control-allow-origin'], '*')
  const { data } = body
  t.match({ status: data.status, uptime: data.uptime }, { status: 'healthy', uptime: 80 })
  t.equal(data.days.length, 30)
  const dayOf = (agoMs: number) => new Date(f.clock.nowMs - agoMs).toISOString().slice(0, 10)
  t.equal(data.days[0].day, dayOf(29 * DAY_MS))
  const none = { checks: 0, failedChecks: 0, answered: null, suspendedMinutes: 0, uptime: null }
  t.same(data.days[0], { day: dayOf(29 * DAY_MS), ...none })
  t.same(data.days[27], { day: dayOf(2 * DAY_MS), ...none, checks: 4, failedChecks: 1, uptime: 75 })
  t.same(data.days[28], { day: dayOf(DAY_MS), ...none, answered: 75, uptime: 75 })
  t.same(data.days[29], { day: dayOf(0), ...none, checks: 1, answered: 99.9, uptime: 100 })
})

t.test('a seller who tests a link makes its uptime no better', async (t) => {
  const { f, key, id, health, probe } = await shown(t)
  await probe(0, false)
  for (let i = 0; i < 3; i++)
    t.equal((await f.call('POST', `/api/v1/links/${id}/test`, { key })).body.data.ok, true)
  const { data } = (await health()).body
  t.match(data, { status: 'healthy', uptime: 0 })
  t.match(data.days[29], { checks: 1, failedChecks: 1 })
})

t.test('a suspension is seen from its beginning, also while it lasts', async (t) => {
  const { f, id, health, probe } = await shown(t)
  f.clock.nowMs += 20 * DAY_MS + 12 * HOUR_MS
  await probe(HOUR_MS, true)
  const sinceMs = f.clock.nowMs - 6 * HOUR_MS
  await f.db.links.setSuspension(id, suspensionAfter(0, 'It failed.', sinceMs), sinceMs)
  const { data } = (await health()).body
  t.equal(data.status, 'suspended')
  t.match(data.days[29], { suspendedMinutes: 360, uptime: 50 })
  t.match(data.days[28], { suspendedMinutes: 0, uptime: null })
})

t.test('what strangers may not see has no health, whoever asks by whichever address', async (t) => {
  const stealth = await shown(t, { isStealth: true })
  for (const slug of [stealth.slug, stealth.privateSlug])
    t.equal((await stealth.health(`${stealth.username}/${slug}`)).body.error.code, 'LINK_NOT_FOUND')
  const hidden = await shown(t, { isPublic: false })
  t.equal((await hidden.health()).status, 404)
  const gone = await shown(t)
  await gone.f.call('DELETE', `/api/v1/links/${gone.id}`, { key: gone.key })
  t.equal((await gone.health()).status, 404)
  for (const address of ['nobody/x', 'UPPER/x', `${gone.username}/%00`, `${gone.username}/..%2f`])
    t.equal((await gone.health(address)).status, 404, address)
})

t.test('a former address leads to the present one', async (t) => {
  const { f, key, id, username, health } = await shown(t)
  await f.call('PATCH', `/api/v1/links/${id}`, { key, body: { slug: 'rain' } })
  const moved = await health(`${username}/weather`)
  t.match(moved, { status: 307, headers: { location: `/api/store/${username}/rain/health` } })
  await f.call('PATCH', '/api/v1/profile', { key, body: { username: 'clouds' } })
  t.match((await health(`${username}/rain`)).headers, { location: '/api/store/clouds/rain/health' })
  t.equal((await health('clouds/rain')).status, 200)
})
