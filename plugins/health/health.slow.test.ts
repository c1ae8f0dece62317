import t, { type Test } from 'tap'
import { startGateway, type TestGateway } from '../../test/helpers/gateway.ts'
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

/** A seller that can be broken and repaired. */
async function moodySeller(t: Test) {
  const mood = { status: 200 }
  const seller = await sellerOf(t, (req, res) => {
    req.resume()
    res.writeHead(mood.status, { 'content-type': 'application/json' }).end('{}')
  })
  return { mood, ...seller }
}

t.test('a link whose calls fail is paused: 503, nothing charged, the seller left in peace', async (t) => {
  const { mood, url } = await moodySeller(t)
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, { settlers: [settler], plugins: plugins(), options: behindProxy })
  const link = await gateway.addLink({ slug: 'paid', url, price: '0.10' })
  let count = 0
  const call = () =>
    fetch(link.url, {
      headers: {
        'payment-signature': scriptedPayment(`n-${count++}`, '100000', payerOf(count)),
        ...addressOf(count),
      },
    })
  for (let i = 0; i < 10; i++) t.equal((await call()).status, 200)
  mood.status = 500
  for (let i = 0; i < 9; i++) t.equal((await call()).status, 502)
  t.equal(await suspensionOf(gateway, link.id), null)
  t.equal((await call()).status, 502, 'half of twenty')
  await until(async () => (await suspensionOf(gateway, link.id)) !== null)
  await until(async () => (await call()).status === 503)
  const paused = await call()
  t.equal(paused.status, 503)
  t.ok(Number(paused.headers.get('retry-after')) > 0)
  t.match(await paused.json(), { error: { code: 'api_suspended', message: /You were not charged/ } })
  t.equal(settler.transfers.length, 10)
  t.match((await gateway.store.links.healthEvents(link.id, 10))[0], { kind: 'suspended', ok: false })

  mood.status = 200
  const serve = async () => {
    await gateway.store.links.setSuspension(link.id, null, Date.now())
  }
  await serve()
  t.equal((await call()).status, 200, 're-enabled')
  mood.status = 500
  for (let i = 0; i < 20; i++) await call()
  await until(async () => (await suspensionOf(gateway, link.id)) !== null, 'the second suspension')
})

t.test('failing at once is not held against a seller whose good answers take their time', async (t) => {
  const mayAnswer = Promise.withResolvers<void>()
  const seller = await sellerOf(t, async (req, res) => {
    const fails = req.url!.includes('fail')
    if (!fails) await mayAnswer.promise
    res.writeHead(fails ? 500 : 200).end()
  })
  const gateway = await startGateway(t, {
    options: behindProxy,
    plugins: [
      { use: 'health', with: { probe: false, probeTimeoutMs: 100, confirmMs: 100 } },
      { use: 'upstream', with: { headersTimeoutMs: 20_000 } },
    ],
  })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  const fail = (i: number) => fetch(`${link.url}?fail=${i}`, { headers: addressOf(i) })
  const slow = Array.from({ length: 21 }, (_, i) => fetch(`${link.url}?slow=${i}`))
  await until(() => seller.calls === 21, 'the slow calls to be under way')
  for (let i = 0; i < 20; i++) t.equal((await fail(i)).status, 500)
  t.equal(await suspensionOf(gateway, link.id), null, '20 of 41')
  await fail(20)
  await until(async () => (await suspensionOf(gateway, link.id)) !== null, 'half of what was begun')
  mayAnswer.resolve()
  for (const { status } of await Promise.all(slow)) t.equal(status, 200)
})

t.test('refusals of the seller and mistakes of callers suspend nothing', async (t) => {
  const { mood, url } = await moodySeller(t)
  mood.status = 404
  const gateway = await startGateway(t, { plugins: plugins() })
  const link = await gateway.addLink({ slug: 'free', url })
  for (let i = 0; i < 25; i++) t.equal((await fetch(link.url)).status, 404)
  t.equal(await suspensionOf(gateway, link.id), null)
})

t.test('callers who break off their uploads or hang up can not get a link suspended', async (t) => {
  const seller = await startSeller(t, 'echo')
  const gateway = await startGateway(t, { plugins: plugins() })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  let ended = 0
  for (let i = 0; i < 30; i++) {
    const socket = await openSocket(t, gateway.port)
    socket.on('close', () => ended++)
    const length = i % 2 === 0 ? 1_000 : 1_000_000
    socket.write(`POST ${link.path} HTTP/1.1\r\nHost: g\r\nContent-Length: ${length}\r\n\r\nabc`)
    await new Promise((resolve) => setTimeout(resolve, 5))
    socket.destroy()
  }
  await until(() => ended === 30)
  await until(() => seller.connections.size <= 1)
  t.equal((await fetch(link.url)).status, 200)
  t.equal(await suspensionOf(gateway, link.id), null)
})

t.test('probes ask by themselves, with the headers of the link, and write down what they saw', async (t) => {
  const requests: (string | undefined)[] = []
  const seller = await sellerOf(t, (req, res) => {
    requests.push(req.headers.authorization)
    res.end('ok')
  })
  const gateway = await startGateway(t, { plugins: [{ use: 'upstream' }] })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  const sealed = gateway.ports.sealer.seal(JSON.stringify({ authorization: 'Bearer seller' }), link.id)
  await gateway.store.links.update(link.id, { upstreamHeadersSealed: sealed }, Date.now())
  await gateway.gateway.swap(await gateway.build(plugins({ probe: true, probeIntervalMs: 1_000 })))
  await until(() => requests.length > 0, 'a probe')
  t.equal(requests[0], 'Bearer seller')
  await until(async () => (await gateway.store.links.healthEvents(link.id, 1)).length > 0)
  t.match((await gateway.store.links.healthEvents(link.id, 1))[0], { kind: 'probe', ok: true, status: 200 })
})

t.test('a seller that is busy with calls is still found healthy', async (t) => {
  const mayGoOn = Promise.withResolvers<void>()
  const seller = await sellerOf(t, async (req, res) => {
    if (req.headers['user-agent'] !== 'tollgate-health-check') await mayGoOn.promise
    res.end('ok')
  })
  const gateway = await startGateway(t, {
    plugins: [{ use: 'upstream', with: { headersTimeoutMs: 30_000 } }],
  })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  const calls = Array.from({ length: 140 }, () => fetch(link.url).then((r) => r.text()))
  await until(() => seller.calls >= 128, 'every connection to be in use')
  const probing = await gateway.build(plugins({ probe: true, probeIntervalMs: 1_000, probeTimeoutMs: 1_000 }))
  const swapped = gateway.gateway.swap(probing)
  await until(async () => (await gateway.store.links.healthEvents(link.id, 1)).length > 0, 'a probe')
  t.match((await gateway.store.links.healthEvents(link.id, 1))[0], { ok: true })
  mayGoOn.resolve()
  await Promise.all([...calls, swapped])
})

t.test(
  'after a reload only the new prober asks, also while a call of the old configuration lasts',
  async (t) => {
    const mayEnd = Promise.withResolvers<void>()
    const called = Promise.withResolvers<void>()
    const seller = await sellerOf(t, async (req, res) => {
      if (req.headers['user-agent'] !== 'tollgate-health-check') {
        called.resolve()
        await mayEnd.promise
      }
      res.end('ok')
    })
    const timeouts: number[] = []
    // The client's own timeout, somewhat later, ends what the probe's own timeout has not.
    const isAbout = (probeTimeoutMs: number) => (timeoutMs: number) => timeoutMs % 1_000 === probeTimeoutMs
    const gateway = await startGateway(t, {
      plugins: plugins({ probe: true, probeIntervalMs: 1_000, probeTimeoutMs: 901 }).map((one) =>
        one.use === 'upstream' ? { use: 'upstream', with: { headersTimeoutMs: 60_000 } } : one,
      ),
      settlers: [createScriptedSettler()],
      adapt: (ports) => {
        const pool: typeof ports.egress.pool = (origin, use) => {
          const own = ports.egress.pool(origin, use)
          if (use !== 'checks') return own
          return {
            connections: own.connections,
            release: () => own.release(),
            dispatch(options, handler) {
              timeouts.push(options.headersTimeout!)
              return own.dispatch(options, handler)
            },
          }
        }
        return { ...ports, egress: Object.create(ports.egress, { pool: { value: pool } }) }
      },
    })
    const link = await gateway.addLink({ slug: 'free', url: seller.url })
    await until(() => timeouts.some(isAbout(901)), 'a probe of the first configuration')
    const call = fetch(link.url)
    await called.promise
    const swapped = gateway.gateway.swap(
      await gateway.build(plugins({ probe: true, probeIntervalMs: 1_000, probeTimeoutMs: 902 })),
    )
    timeouts.length = 0
    await until(() => timeouts.length >= 3, 'probes of the second configuration')
    t.ok(timeouts.every(isAbout(902)), `${timeouts}`)
    mayEnd.resolve()
    t.equal((await call).status, 200)
    await (await swapped).retired
  },
)

t.test('an API that keeps its probe waiting is not asked again meanwhile', async (t) => {
  let [open, most] = [0, 0]
  const seller = await sellerOf(t, (req) => {
    most = Math.max(most, ++open)
    req.socket.once('close', () => open--)
  })
  const gateway = await startGateway(t, {
    plugins: [
      { use: 'health', with: { probeIntervalMs: 1_000, probeTimeoutMs: 2_500 } },
      { use: 'upstream' },
    ],
  })
  await gateway.addLink({ slug: 'silent', url: seller.url, price: '0' })
  await until(() => seller.calls >= 2, 'a second probe')
  t.equal(most, 1)
})

t.test('a link without an API behind it is never probed', async (t) => {
  const requests: string[] = []
  const seller = await sellerOf(t, (req, res) => {
    requests.push(req.url!)
    res.writeHead(200).end()
  })
  const gateway = await startGateway(t, {
    plugins: [{ use: 'health', with: { probeIntervalMs: 1000 } }, { use: 'upstream' }],
  })
  await gateway.addLink({ slug: 'product', url: `${seller.url}/product`, price: '0', linkType: 'standard' })
  await gateway.addLink({ slug: 'api', url: `${seller.url}/api`, price: '0' })
  // A whole round: the other link is probed twice.
  await until(() => requests.length >= 2)
  t.notOk(requests.includes('/product'))
})
