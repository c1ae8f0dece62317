import { once } from 'node:events'
import t from 'tap'
import { startGateway, type TestGateway } from '../../test/helpers/gateway.ts'
import { pluginOf } from '../../test/helpers/plugins.ts'
import { openSocket, until } from '../../test/helpers/rawHttp.ts'
import { sellerOf } from '../../test/helpers/sellerOf.ts'
import { startSeller } from '../../test/helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from '../../test/helpers/settler.ts'

const plugins = (more: object = {}) => [
  { use: 'health', with: { probe: false, confirmMs: 100, ...more } },
  { use: 'x402' },
  { use: 'replay-guard' },
  { use: 'upstream', with: { headersTimeoutMs: 200 } },
  { use: 'purchase-record' },
]
const suspensionOf = async ({ store }: TestGateway, id: string) =>
  (await store.links.find(id))?.suspension ?? null

/** Every call from another caller: another address, behind a proxy, and another wallet. */
const behindProxy = { trustedProxyCidrs: ['127.0.0.0/8'] }
const addressOf = (i: number) => ({ 'x-forwarded-for': `203.0.113.${i % 250}` })
const payerOf = (i: number) => `0x${String(i).padStart(40, '0')}`

t.test(
  'a buyer with inputs that fail can not get a link suspended, whatever he pays and however it fails',
  async (t) => {
    const probed: string[] = []
    const seller = await sellerOf(t, (req, res) => {
      req.resume()
      if (req.headers['user-agent'] === 'tollgate-health-check') probed.push(req.url!)
      if (req.url!.includes('reset')) req.socket.destroy()
      else if (!req.url!.includes('silent')) res.writeHead(req.url!.includes('fail') ? 500 : 200).end('{}')
    })
    const settler = createScriptedSettler()
    const gateway = await startGateway(t, { settlers: [settler], plugins: plugins() })
    let count = 0
    for (const [slug, more] of Object.entries({
      free: { price: '0' },
      after: { price: '0.10' },
      before: { price: '0.10', settle: 'before' as const },
    })) {
      const link = await gateway.addLink({ slug, url: `${seller.url}/${slug}`, ...more })
      const before = probed.length
      const call = (input: string) => {
        const payment = scriptedPayment(`bad-${count++}`, '100000', payerOf(count))
        return fetch(`${link.url}?${input}`, { headers: { 'payment-signature': payment } }).catch(
          () => undefined,
        )
      }
      const bad = ['fail', 'reset', 'fail', 'silent']
      await Promise.all(Array.from({ length: 24 }, (_, i) => call(bad[i % bad.length]!)))
      await until(() => probed.length > before, `${slug}: a health check`)
      await until(async () => (await gateway.store.links.healthEvents(link.id, 1)).length > 0)
      t.match(await gateway.store.links.healthEvents(link.id, 10), [{ kind: 'probe', ok: true }], slug)
      t.equal((await call('good'))!.status, 200, slug)
      t.equal(await suspensionOf(gateway, link.id), null, slug)
    }
  },
)

t.test('a caller who does not send its body in time is no failure of the seller', async (t) => {
  const outcomes: unknown[] = []
  const seller = await startSeller(t, 'echo')
  const watcher = pluginOf('watcher', { log: (x) => void outcomes.push(x.upstreamOutcome) })
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, {
    settlers: [settler],
    extraPlugins: [watcher],
    plugins: [
      { use: 'watcher' },
      { use: 'x402' },
      { use: 'replay-guard' },
      { use: 'upstream', with: { headersTimeoutMs: 200, responseTimeoutMs: 400, bodyTimeoutMs: 200 } },
      { use: 'purchase-record' },
    ],
  })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const socket = await openSocket(t, gateway.port)
  const payment = `payment-signature: ${scriptedPayment('slow', '100000')}`
  socket.write(
    `POST ${link.path} HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n${payment}\r\n\r\n1\r\nx\r\n`,
  )
  const [lines] = (await once(socket, 'data')) as [Buffer]
  t.match(
    String(lines),
    /^HTTP\/1.1 502 .*The body of the request did not arrive in time. You were not charged/s,
  )
  await until(() => outcomes.length > 0)
  t.strictSame(outcomes, ['buyer-left'])
  t.strictSame(settler.transfers, [])
})

t.test(
  'behind upstream, it judges the calls that have ended; those of one caller are confirmed for longer',
  async (t) => {
    const { url } = await sellerOf(
      t,
      (req, res) => void req.resume().on('end', () => res.writeHead(500).end()),
    )
    const gateway = await startGateway(t, { plugins: [...plugins().slice(1), plugins()[0]!] })
    const link = await gateway.addLink({ slug: 'free', url })
    for (let i = 0; i < 20; i++) t.equal((await fetch(link.url)).status, 500)
    const kinds = async () => (await gateway.store.links.healthEvents(link.id, 10)).map(({ kind }) => kind)
    await until(async () => (await kinds()).includes('suspended'))
    t.strictSame(await kinds(), ['suspended', 'probe', 'probe', 'probe', 'probe', 'probe'])
  },
)

t.test('a health check that succeeds ends the suspicion, and calls are counted anew', async (t) => {
  const probes: number[] = []
  const seller = await sellerOf(t, (req, res) => {
    req.resume()
    const isProbe = req.headers['user-agent'] === 'tollgate-health-check'
    // The first one fails, the second is good, and from then on all fail.
    if (isProbe) probes.push(probes.length === 1 ? 200 : 500)
    res.writeHead(isProbe ? probes.at(-1)! : 500).end('{}')
  })
  const gateway = await startGateway(t, { plugins: plugins(), options: behindProxy })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  const fail = async (count: number) => {
    for (let i = 0; i < count; i++) await fetch(link.url, { headers: addressOf(i) })
  }
  await fail(20)
  await until(async () => (await gateway.store.links.healthEvents(link.id, 10)).length === 2)
  t.equal(await suspensionOf(gateway, link.id), null)
  let more = 0
  await until(async () => {
    await fail(4)
    more += 4
    return (await suspensionOf(gateway, link.id)) !== null
  })
  t.ok(more >= 20, `${more} more`)
  t.strictSame(probes, [500, 200, 500, 500, 500, 500, 500])
})

t.test(
  'who answers health checks well and is paid for answers that fail is suspended all the same',
  async (t) => {
    const ways = ['500', 'redirect', 'cut', 'silent']
    let requestCount = 0
    const seller = await sellerOf(t, (req, res) => {
      req.resume()
      if (req.headers['user-agent'] === 'tollgate-health-check') return void res.end('{}')
      const way = ways[requestCount++ % ways.length]
      if (way === '500') res.writeHead(500).end()
      else if (way === 'redirect') res.writeHead(302, { location: '/' }).end()
      else if (way === 'cut') res.writeHead(200, { 'content-length': 9 }).write('half', () => res.destroy())
    })
    const gateway = await startGateway(t, {
      settlers: [createScriptedSettler()],
      plugins: plugins(),
      options: behindProxy,
    })
    const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10', settle: 'before' })
    let count = 0
    const call = () => {
      const i = count++
      const payment = scriptedPayment(`bought-${i}`, '100000', payerOf(i))
      return fetch(link.url, { headers: { 'payment-signature': payment, ...addressOf(i) } }).catch(
        () => undefined,
      )
    }
    await until(async () => {
      await Promise.all([call(), call(), call(), call()])
      return (await suspensionOf(gateway, link.id)) !== null
    }, 'the suspension')
    t.match((await suspensionOf(gateway, link.id))!.reason, /The callers who were charged met the failures/)
  },
)

t.test('a payer who was served well weighs as much as one who was not', async (t) => {
  const seller = await sellerOf(t, (req, res) => {
    req.resume()
    res.writeHead(req.url!.includes('fail') ? 500 : 200).end('{}')
  })
  const gateway = await startGateway(t, {
    settlers: [createScriptedSettler()],
    plugins: plugins(),
    options: behindProxy,
  })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10', settle: 'before' })
  let count = 0
  const call = (input: string, payer: number) =>
    fetch(`${link.url}?${input}`, {
      headers: {
        'payment-signature': scriptedPayment(`weighs-${count++}`, '100000', payerOf(payer)),
        ...addressOf(payer),
      },
    })
  for (let i = 0; i < 9; i++) t.equal((await call('good', i)).status, 200)
  // Eight other callers, with inputs that fail.
  for (let i = 0; i < 24; i++) t.equal((await call('fail', 100 + (i % 8))).status, 502)
  await until(async () => (await gateway.store.links.healthEvents(link.id, 10)).length > 0, 'a health check')
  t.match(await gateway.store.links.healthEvents(link.id, 10), [{ kind: 'probe', ok: true }])
  t.equal(await suspensionOf(gateway, link.id), null)
})

t.test('an input that keeps an API down for a while can not get it suspended', async (t) => {
  let downUntilMs = 0
  const seller = await sellerOf(t, (req, res) => {
    req.resume()
    if (req.url!.includes('kill')) downUntilMs = performance.now() + 400
    if (performance.now() < downUntilMs) req.socket.destroy()
    else res.end('{}')
  })
  const gateway = await startGateway(t, { plugins: plugins({ confirmMs: 4_000 }), options: behindProxy })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  await Promise.all(
    Array.from({ length: 24 }, (_, i) => fetch(`${link.url}?kill`, { headers: addressOf(i) })),
  )
  const events = () => gateway.store.links.healthEvents(link.id, 10)
  await until(async () => (await events()).some(({ ok }) => ok), 'a good health check')
  t.match((await events()).at(-1), { kind: 'probe', ok: false }, 'the first one found it down')
  t.equal(await suspensionOf(gateway, link.id), null)
})
