import t from 'tap'
import { startGateway } from '../../test/helpers/gateway.ts'
import { startSeller } from '../../test/helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from '../../test/helpers/settler.ts'
import { pathOf, targetOf } from './request.ts'
import { Origins } from './slots.ts'

t.test("a call's path is the link's, then what the caller put behind it", (t) => {
  const at = (url: string, subPath: string, query = '') => pathOf(targetOf(url), subPath, query)
  t.equal(at('https://s.example', ''), '/')
  t.equal(at('https://s.example', '/a/b', '?q=1'), '/a/b?q=1')
  t.equal(at('https://s.example/v1', ''), '/v1')
  t.equal(at('https://s.example/v1/', ''), '/v1/')
  t.equal(at('https://s.example/v1/', '/a'), '/v1/a')
  t.equal(at('https://s.example/v1?key=k', '/a', '?q=1'), '/v1/a?key=k&q=1')
  t.equal(at('https://s.example/v1?key=k', '', '?'), '/v1?key=k')
  t.equal(at('https://s.example/v1', '', '?'), '/v1?')
  t.equal(targetOf('https://s.example:8443/v1').origin, 'https://s.example:8443')
  t.end()
})

t.test('links of one origin share its connections until the last link and call are gone', (t) => {
  const log: string[] = []
  const egress = {
    pool: (origin: string) => {
      log.push(`open ${origin}`)
      return { connections: 1, dispatch: () => true, release: () => void log.push(`release ${origin}`) }
    },
  }
  const origins = new Origins(egress)
  const { origin: a, calls } = origins.link('a', 'store')
  t.strictSame(origins.link('a', 'store'), { origin: a, calls })
  a.unlink(calls)
  t.strictSame(log, ['open a'])
  const call = a.begin(calls, false, 1)
  a.unlink(calls)
  t.strictSame(log, ['open a'], 'a call is under way')
  call.release()
  t.strictSame(log, ['open a', 'release a'])
  a.begin(calls, true, 1).release()
  t.strictSame(
    log,
    ['open a', 'release a', 'open a', 'release a'],
    'a late call gets a connection all the same',
  )
  t.not(origins.link('a', 'store').origin, a)
  t.end()
})

t.test('an address that is not allowed any more is that one link’s trouble', async (t) => {
  const seller = await startSeller(t, 'hello')
  const settler = createScriptedSettler()
  const logged: object[] = []
  const log = { debug() {}, info() {}, warn() {}, error: (fields: object) => void logged.push(fields) }
  const gateway = await startGateway(t, { settlers: [settler], log })
  const good = await gateway.addLink({ slug: 'good', url: seller.url })
  const pay = { headers: { 'payment-signature': scriptedPayment('n', '100000') } }
  for (const [slug, price, settle] of [
    ['free', '0', 'after'],
    ['paid', '0.10', 'after'],
    ['first', '0.10', 'before'],
  ] as const) {
    const link = await gateway.addLink({ slug, url: 'http://10.0.0.1/', price, settle })
    const response = await fetch(link.url, pay)
    t.equal(response.status, 502, slug)
    t.match(await response.json(), { error: { code: 'upstream_error' } })
  }
  t.equal(settler.transfers.length, 0)
  t.match(logged[0], { linkId: String, reason: String })
  await (await gateway.gateway.swap(await gateway.build([{ use: 'upstream' }]))).retired
  t.equal((await fetch(good.url)).status, 200)
})

t.test('no answer tells what stands behind a link', async (t) => {
  const seller = await startSeller(t, 'reset')
  const gateway = await startGateway(t)
  const link = await gateway.addLink({ slug: 'free', url: `${seller.url}/secret-path` })
  const text = await (await fetch(link.url)).text()
  t.match(text, /upstream_error/)
  t.notMatch(text, new RegExp(`127\\.0\\.0\\.1|${seller.port}|secret-path|ECONNRESET|undici`))
})
