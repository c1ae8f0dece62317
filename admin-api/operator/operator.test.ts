import t from 'tap'
import { startAdmin } from '../testing/startAdmin.ts'

t.test('it lives, it is ready, and it says what is missing when it is not', async (t) => {
  const reasons: string[] = []
  const f = await startAdmin(t, { ready: async () => reasons })
  t.same((await f.call('GET', '/healthz')).body, { success: true, data: { status: 'ok' } })
  t.same((await f.call('GET', '/readyz')).body, { success: true, data: { status: 'ready' } })
  reasons.push('The database takes no writes.')
  const direct = await f.call('GET', '/readyz')
  t.equal(direct.status, 503)
  t.equal(direct.body.error.code, 'NOT_READY')
  t.equal(direct.body.error.details[0].message, 'The database takes no writes.')
  const proxied = await f.call('GET', '/readyz', { headers: { 'x-forwarded-for': '198.51.100.1' } })
  t.equal(proxied.status, 503)
  t.equal(proxied.body.error.details, undefined)
  t.equal((await f.call('GET', '/healthz')).status, 200)
  t.same(f.logged, [], 'an unready service does not fill its log with it')
})

t.test('figures are for the operator: not through the gateway unless they are opened', async (t) => {
  const f = await startAdmin(t)
  const direct = await f.call('GET', '/metrics')
  t.equal(direct.status, 200)
  t.equal(direct.text, 'up 1\n')
  t.match(direct.headers['content-type'], /^text\/plain/)
  const headers = { 'x-forwarded-for': '198.51.100.1' }
  t.equal((await f.call('GET', '/metrics', { headers })).status, 404)
  const open = await startAdmin(t, { options: { operatorAccess: 'anyone' } })
  t.equal((await open.call('GET', '/metrics', { headers })).status, 200)
  const none = await startAdmin(t, { metrics: { source: undefined } })
  t.equal((await none.call('GET', '/metrics')).body.error.code, 'NOT_FOUND')
})
