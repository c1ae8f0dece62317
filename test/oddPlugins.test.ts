import t, { type Test } from 'tap'
import { TollgateError } from '../core/errors/error.ts'
import { gatewayPlugin, type Hook, type RouteHooks } from '../core/plugin/gateway.ts'
import { silentLog } from '../core/ports/log.ts'
import { startGateway } from './helpers/gateway.ts'
import { noOptions, pluginOf, withUpstream } from './helpers/plugins.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { startSeller } from './helpers/sellers.ts'

async function responseOf(t: Test, hook: Hook | undefined, more: RouteHooks = {}) {
  const seller = await startSeller(t, 'hello')
  const plugin = pluginOf('odd', { ...(hook && { guard: hook }), ...more })
  const gateway = await startGateway(t, { extraPlugins: [plugin], plugins: withUpstream('odd') })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  const response = await fetch(link.url)
  const body = (await response.json()) as { error?: { code: string; message: string; requestId: string } }
  return { status: response.status, body, seller, gateway, link, headers: response.headers }
}

t.test('whatever a plugin does, the caller gets an answer and the gateway lives', async (t) => {
  const plain = {
    status: 500,
    body: { success: false, error: { code: 'internal_error', requestId: /^[0-9a-f-]{36}$/ } },
  }
  const odd: [string, Hook, object][] = [
    [
      'throws',
      () => {
        throw new Error('secret inside')
      },
      plain,
    ],
    [
      'throws nothing',
      () => {
        throw undefined
      },
      plain,
    ],
    [
      'throws text',
      () => {
        throw 'text'
      },
      plain,
    ],
    ['rejects', () => Promise.reject(new Error('secret inside')), plain],
    [
      'throws on purpose',
      () => {
        throw new TollgateError('rate_limited', 'Slow.')
      },
      { status: 429, body: { error: { code: 'rate_limited', message: 'Slow.' } } },
    ],
    ['rejects on purpose', () => Promise.reject(new TollgateError('rate_limited', 'Slow.')), { status: 429 }],
    ['passes by null', () => null as never, { status: 200 }],
    ['passes by a promise of null', () => Promise.resolve(null) as never, { status: 200 }],
    [
      'answers late',
      async () => {
        await new Promise((resolve) => setTimeout(resolve, 20))
      },
      { status: 200 },
    ],
    ['gives no reply', () => ({}) as never, plain],
    [
      'gives a reply that can not be written',
      () => ({ status: 200, headers: ['x', 'a\r\nb'], body: null }),
      plain,
    ],
    ['gives a status that is none', () => ({ status: 42, headers: [], body: null }), plain],
  ]
  for (const [name, hook, expected] of odd) {
    const { status, body, gateway, link } = await responseOf(t, hook)
    t.match({ status, body }, expected, name)
    t.notMatch(JSON.stringify(body), /secret/, name)
    t.ok((await fetch(link.url)).status > 0, `${name}: the gateway answers`)
    await gateway.gateway.close()
    t.pass(`${name}: and closes, so no call is left open`)
  }
})

t.test('a log hook that throws or rejects harms nobody', async (t) => {
  for (const log of [
    () => {
      throw new Error('log')
    },
    async () => Promise.reject(new Error('log')),
  ]) {
    const { status, gateway } = await responseOf(t, undefined, { log })
    t.equal(status, 200)
    await gateway.gateway.close()
  }
})

t.test('a payment that a plugin left without its identity ends no process', async (t) => {
  const lines: object[] = []
  const log = { ...silentLog, error: (fields: object) => void lines.push(fields) }
  for (const payment of [{}, { identity: {} }, { identity: { payer: 5 } }]) {
    const odd = gatewayPlugin({
      ...{ name: 'odd', api: 1, options: noOptions, needs: [] },
      slots: { pay: { mayWrite: ['payment'] } },
      setup: () => ({ route: () => ({ pay: (x) => void (x.payment = payment as never) }) }),
    })
    const seller = await startSeller(t, 'hello')
    const gateway = await startGateway(t, {
      log,
      extraPlugins: [odd as never],
      plugins: withUpstream('odd'),
    })
    const link = await gateway.addLink({ slug: 'free', url: seller.url })
    for (const times of ['once', 'again']) t.equal((await fetch(link.url)).status, 200, times)
    await gateway.gateway.close()
  }
  t.match(lines, [{ err: TypeError }, { err: TypeError }, { err: TypeError }, { err: TypeError }])
})

t.test('a plugin may answer, add headers and see how it ended', async (t) => {
  const ends: [number, string | null][] = []
  const hooks: RouteHooks = {
    guard: (x) => x.addHeader('X-Hello', 'world'),
    log: (x) => void ends.push([x.status, x.errorCode]),
  }
  const { status, headers, link } = await responseOf(t, undefined, hooks)
  t.equal(status, 200)
  t.equal(headers.get('x-hello'), 'world')
  await fetch(link.url, { method: 'POST' })
  t.strictSame(ends, [
    [200, null],
    [200, null],
  ])
})

t.test('deliver hooks run once after the answer and before every log hook, whatever they do', async (t) => {
  const lines: string[] = []
  const odd = {
    throws: () => {
      throw new Error('secret inside')
    },
    rejects: async () => Promise.reject(new Error('secret inside')),
    'answers too late': () => ({ status: 200, headers: [], body: null }) as never,
  }
  for (const [name, deliver] of Object.entries(odd)) {
    const failures: object[] = []
    const log = { ...silentLog, error: (fields: object) => void failures.push(fields) }
    const plugins = [
      pluginOf('first', { log: () => void lines.push('log'), deliver }),
      pluginOf('second', { deliver: (x) => void lines.push(`deliver ${x.status}`) }),
    ]
    const gateway = await startGateway(t, {
      log,
      extraPlugins: plugins,
      plugins: withUpstream('first', 'second'),
    })
    const seller = await startSeller(t, 'hello')
    const link = await gateway.addLink({ slug: 'free', url: seller.url })
    t.equal((await fetch(link.url)).status, 200, name)
    await gateway.gateway.close()
    t.strictSame(lines.splice(0), ['deliver 200', 'log'], name)
    const expected = name.startsWith('answers') ? [] : [{ plugin: 'first', phase: 'deliver' }]
    t.match(failures, expected, `${name}: the log names whose it was`)
    t.equal(failures.length, expected.length)
  }
})

t.test('deliver hooks run at the end of a stream, and for a caller who left', async (t) => {
  const ends: [isUnsent: boolean, bytes: string | null][] = []
  let delivered = () => {}
  const plugin = pluginOf('watch', {
    deliver: (x) => {
      ends.push([x.isUnsent, x.upstreamOutcome])
      delivered()
    },
  })
  const gateway = await startGateway(t, { extraPlugins: [plugin], plugins: withUpstream('watch') })
  let finish = () => {}
  const { url } = await sellerOf(t, (_req, res) => {
    res.write('begin')
    finish = () => res.end()
  })
  const link = await gateway.addLink({ slug: 'free', url })
  const whole = await fetch(link.url)
  const reader = whole.body!.getReader()
  await reader.read()
  t.strictSame(ends, [], 'a stream under way is not delivered yet')
  const first = new Promise<void>((resolve) => (delivered = resolve))
  finish()
  while (!(await reader.read()).done);
  await first
  t.strictSame(ends, [[false, 'answered']])
  const second = new Promise<void>((resolve) => (delivered = resolve))
  const leaving = new AbortController()
  const cut = await fetch(link.url, { signal: leaving.signal })
  await cut.body!.getReader().read()
  leaving.abort()
  await second
  t.strictSame(ends[1], [true, 'buyer-left'])
})
