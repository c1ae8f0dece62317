import t, { type Test } from 'tap'
import type { Hook, RouteHooks } from '../core/plugin/gateway.ts'
import { silentLog } from '../core/ports/log.ts'
import { startGateway } from './helpers/gateway.ts'
import { pluginOf, withUpstream } from './helpers/plugins.ts'
import { openSocket, talk } from './helpers/rawHttp.ts'
import { startSeller } from './helpers/sellers.ts'
import { createScriptedSettler } from './helpers/settler.ts'

const withOdd = async (t: Test, hooks: RouteHooks, more: Parameters<typeof pluginOf>[2] = {}) => {
  const errors: { err?: Error }[] = []
  const words: string[] = []
  const log = {
    ...silentLog,
    error(fields: object, text = '') {
      errors.push(fields)
      words.push(text)
    },
  }
  const gateway = await startGateway(t, {
    log,
    extraPlugins: [pluginOf('odd', hooks, more)],
    plugins: withUpstream('odd'),
  })
  const seller = await startSeller(t, 'hello')
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  return { errors, words, gateway, seller, link }
}

t.test('an answer that a plugin has begun and then fails to give is broken off', async (t) => {
  const begun: [string, Hook][] = [
    [
      'throws',
      (x) => {
        x.transport.begin(200, ['Content-Length', '10'])
        throw new Error('after the head')
      },
    ],
    [
      'answers otherwise',
      (x) => {
        x.transport.begin(200, ['Content-Length', '10'])
        return { status: 200, headers: [], body: 'another' }
      },
    ],
  ]
  for (const [name, guard] of begun) {
    const { link, gateway } = await withOdd(t, { guard })
    const { closed } = await talk(gateway.port, `GET ${link.path} HTTP/1.1\r\nHost: g\r\n\r\n`)
    t.ok(closed, name)
  }
})

t.test('an upgrade that no plugin answers is answered', async (t) => {
  const gateway = await startGateway(t, { plugins: [{ use: 'rate-limit' }] })
  const link = await gateway.addLink({ slug: 'free', url: 'http://seller.invalid/' })
  const { text, statuses } = await talk(
    gateway.port,
    `GET ${link.path} HTTP/1.1\r\nHost: g\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
  )
  t.strictSame(statuses, [500], text)
})

t.test('a body is read once, however many ask for it and whenever', async (t) => {
  const bodies: (string | null)[] = []
  const guard: Hook = async (x) => {
    const first = x.readBody(1_000)
    await new Promise((resolve) => setImmediate(resolve))
    const second = x.readBody(1_000)
    bodies.push(String(await first), String(await second), String(await x.readBody(1_000)))
    t.equal(x.readBody(3), null, 'over what was asked for')
  }
  const { link, seller } = await withOdd(t, { guard })
  const head = `POST ${link.path} HTTP/1.1\r\nHost: g\r\nContent-Length: 6\r\n\r\nabc`
  const socket = await openSocket(t, Number(new URL(link.url).port))
  socket.write(head)
  await new Promise((resolve) => setTimeout(resolve, 50))
  socket.write('def')
  await new Promise((resolve) => socket.once('data', resolve))
  socket.destroy()
  t.strictSame(bodies, ['abcdef', 'abcdef', 'abcdef'])
  t.equal(String(seller.requests[0]?.body), 'abcdef', 'all of it reaches the seller')
})

t.test('what a plugin answers that is no reply is named in the log', async (t) => {
  const odd: [unknown, RegExp][] = [
    [0, /odd.*number.*phase guard/],
    [false, /odd.*boolean.*phase guard/],
    [new Set(), /odd.*object.*phase guard/],
    [Promise.resolve('text'), /odd.*string.*phase guard/],
    [{ status: 200, headers: { 'content-type': 'text/plain' }, body: 'x' }, /odd.*headers.*phase guard/],
    [{ status: 200, headers: ['content-type'], body: 'x' }, /odd.*headers.*phase guard/],
    [{ status: 200, headers: [], body: { a: 1 } }, /odd.*body.*phase guard/],
    [{ status: 200, body: 'x' }, /odd.*headers.*phase guard/],
  ]
  for (const [response, message] of odd) {
    const { link, errors } = await withOdd(t, { guard: () => response as never })
    const { status } = await fetch(link.url)
    t.equal(status, 500)
    t.match(errors[0]?.err?.message, message)
  }
})

t.test('background work that fails later ends no process', async (t) => {
  const failing = async () => Promise.reject(new Error('secret inside'))
  const { words, gateway, link } = await withOdd(
    t,
    { dispose: failing as never },
    { start: failing as never, stop: failing as never },
  )
  t.equal((await fetch(link.url)).status, 200)
  await gateway.gateway.close()
  await new Promise((resolve) => setImmediate(resolve))
  for (const result of [/at its start/, /at its stop/, /dispose of a link/])
    t.ok(
      words.some((text) => result.test(text)),
      String(result),
    )
})

t.test('a header is found by its name, however it is written, and nothing else is', async (t) => {
  const seen: unknown[] = []
  const names = ['X-Asked', 'x-asked', 'constructor', '__proto__', 'toString', '', 'x-none']
  const { link } = await withOdd(t, { guard: (x) => void seen.push(names.map((name) => x.header(name))) })
  t.equal((await fetch(link.url, { headers: { 'x-asked': 'yes' } })).status, 200)
  t.strictSame(seen, [['yes', 'yes', undefined, undefined, undefined, undefined, undefined]])
})

t.test(
  'an answer that was given by a plugin with another copy of the contract counts as given',
  async (t) => {
    const foreign = { status: 0, headers: [], body: null }
    const ends: unknown[] = []
    const { link, errors } = await withOdd(t, {
      guard: (x) => {
        x.transport.begin(200, ['Content-Length', '2'])
        x.transport.end(Buffer.from('ok'))
        return foreign
      },
      log: (x) => void ends.push(x.isUnsent),
    })
    t.equal(await (await fetch(link.url)).text(), 'ok')
    t.strictSame([ends, errors], [[false], []])
  },
)

t.test('a body that a plugin reads before the 402 is asked for', async (t) => {
  const bodies: string[] = []
  const reading = pluginOf('reading', { guard: async (x) => void bodies.push(String(await x.readBody(10))) })
  const plugins = ['reading', 'x402', 'replay-guard', 'upstream', 'purchase-record'].map((use) => ({ use }))
  const settlers = [createScriptedSettler()]
  const gateway = await startGateway(t, { settlers, plugins, extraPlugins: [reading] })
  const link = await gateway.addLink({ slug: 'paid', url: 'http://127.0.0.1:9/', price: '0.10' })
  const socket = await openSocket(t, gateway.port)
  socket.write(`POST ${link.path} HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n`)
  const interim = await new Promise((resolve) => socket.once('data', resolve))
  t.match(String(interim), /^HTTP\/1\.1 100 /)
  socket.write('abc')
  const response = await new Promise((resolve) => socket.once('data', resolve))
  t.match(String(response), /^HTTP\/1\.1 402 /)
  t.strictSame(bodies, ['abc'])
})
