import fc from 'fast-check'
import t from 'tap'
import { admissionRefusals, sumInFlight } from '../../adapters/chains/refusals.ts'
import { callerOf } from '../../core/http/caller.ts'
import { startGateway } from '../../test/helpers/gateway.ts'
import { hasWholeResponse, talk, until } from '../../test/helpers/rawHttp.ts'
import { startSeller } from '../../test/helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment, scriptedPaymentV1 } from '../../test/helpers/settler.ts'

const rest = [{ use: 'x402' }, { use: 'replay-guard' }, { use: 'upstream' }, { use: 'purchase-record' }]
const limited = (options: object) => [{ use: 'rate-limit', with: options }, ...rest]

t.test('a caller who asks too often gets 429 with the time to wait, and others do not', async (t) => {
  const seller = await startSeller(t, 'hello')
  const gateway = await startGateway(t, {
    plugins: limited({ points: 3, windowMs: 60_000 }),
    options: { trustedProxyCidrs: ['127.0.0.0/8'] },
  })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  const from = (ip: string) => fetch(link.url, { headers: { 'x-forwarded-for': ip } })
  for (let i = 0; i < 3; i++) t.equal((await from('192.0.2.1')).status, 200)
  const refused = await from('192.0.2.1')
  t.equal(refused.status, 429)
  const wait = Number(refused.headers.get('retry-after'))
  t.ok(wait >= 1 && wait <= 60)
  t.equal(refused.headers.get('x-ratelimit-remaining'), '0')
  t.ok(Number(refused.headers.get('x-ratelimit-reset')) * 1000 > Date.now())
  t.match(await refused.json(), {
    success: false,
    error: { code: 'rate_limited', retryable: true, requestId: String },
  })
  t.equal((await from('192.0.2.2')).status, 200)
  t.equal(seller.requests.length, 4)
})

t.test('an IPv6 subscriber has one bucket, however many addresses', async (t) => {
  const seller = await startSeller(t, 'hello')
  const gateway = await startGateway(t, {
    plugins: limited({ points: 2 }),
    options: { trustedProxyCidrs: ['127.0.0.1/32'] },
  })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  const from = async (ip: string) => (await fetch(link.url, { headers: { 'x-forwarded-for': ip } })).status
  t.equal(await from('2001:db8:1:2::1'), 200)
  t.equal(await from('2001:DB8:1:2:ffff:ffff:ffff:ffff'), 200)
  t.equal(await from('2001:0db8:0001:0002:0:0:0:9'), 429)
  t.equal(await from('2001:db8:1:3::1'), 200)
  t.equal(await from('192.0.2.1'), 200)
  t.equal(await from('::ffff:192.0.2.1'), 200)
  t.equal(await from('::ffff:c000:201'), 429, 'the same IPv4 address in every spelling')
})

t.test('only a proxy of the operator is believed about whom a call comes from', async (t) => {
  const seller = await startSeller(t, 'mirror')
  const seenBy = async (trustedProxyCidrs: string[], forwarded: string | undefined) => {
    const gateway = await startGateway(t, { plugins: [{ use: 'upstream' }], options: { trustedProxyCidrs } })
    const link = await gateway.addLink({ slug: 'free', url: seller.url })
    const line = forwarded === undefined ? '' : `X-Forwarded-For: ${forwarded}\r\n`
    await talk(gateway.port, `GET ${link.path} HTTP/1.1\r\nHost: g\r\n${line}\r\n`, hasWholeResponse)
    const { rawHeaders } = seller.requests.at(-1)!
    return rawHeaders[rawHeaders.findIndex((name) => name.toLowerCase() === 'x-forwarded-for') + 1]
  }
  t.equal(await seenBy([], '192.0.2.1'), '127.0.0.1')
  t.equal(await seenBy(['10.0.0.0/8'], '192.0.2.1'), '127.0.0.1')
  const mine = ['127.0.0.0/8', '10.0.0.0/8', 'fd00::/8']
  t.equal(await seenBy(mine, undefined), '127.0.0.1')
  t.equal(await seenBy(mine, '192.0.2.1'), '192.0.2.1')
  t.equal(await seenBy(mine, '192.0.2.9, 192.0.2.1'), '192.0.2.1', 'what stands left of it may be made up')
  t.equal(await seenBy(mine, '192.0.2.1, 10.1.1.1, fd00::1'), '192.0.2.1')
  t.equal(await seenBy(mine, '10.1.1.1'), '10.1.1.1', 'a caller inside the network of the proxies')
  t.equal(await seenBy(mine, 'unknown'), 'unknown')
  t.equal(await seenBy(mine, '192.0.2.1, junk'), 'unknown', 'what stands left of it may be made up')
  t.equal(await seenBy(mine, '192.0.2.1\r\nX-Forwarded-For: 192.0.2.2'), '192.0.2.2')
})

t.test('a paid success costs nothing; failed payments fill their own bucket and then end', async (t) => {
  const seller = await startSeller(t, 'hello')
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, {
    settlers: [settler],
    plugins: limited({ points: 2, paymentPoints: 3 }),
  })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const pay = async (payment: string) =>
    (await fetch(link.url, { headers: { 'payment-signature': payment } })).status
  for (let i = 0; i < 10; i++) t.equal(await pay(scriptedPayment(`ok-${i}`, '100000')), 200)
  for (let i = 0; i < 3; i++) t.equal(await pay('junk'), 400)
  const checks = settler.calls.check
  t.equal(await pay('junk'), 429)
  t.equal(await pay(scriptedPayment('good', '100000')), 429, 'before any work on the payment')
  t.equal(settler.calls.check, checks)
  t.equal((await fetch(link.url)).status, 402, 'calls without a payment have their own')
  t.equal((await fetch(link.url)).status, 402)
  t.equal((await fetch(link.url)).status, 429)
})

t.test('payments for which their payer has too little fill the bucket, at once or one by one', async (t) => {
  const seller = await startSeller(t, 'hello')
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, { settlers: [settler], plugins: limited({ paymentPoints: 3 }) })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const pay = async (nonce: string) =>
    (await fetch(link.url, { headers: { 'payment-signature': scriptedPayment(nonce, '100000') } })).status
  const payV1 = async (nonce: string) =>
    (await fetch(link.url, { headers: { 'x-payment': scriptedPaymentV1(nonce, '100000') } })).status
  // The chain cannot be queried: that is neither side's failure.
  settler.verifyWith = async () => ({ ok: false, reason: 'verify_fault', message: '', transient: true })
  for (let i = 0; i < 5; i++) t.equal(await pay(`away-${i}`), 503)
  // Nor is a large number of purchases.
  for (const why of ['payer_in_flight', 'in_flight', 'store_in_flight'] as const) {
    settler.verifyWith = async () => admissionRefusals[why]
    for (let i = 0; i < 5; i++) t.equal(await pay(`${why}-${i}`), 503)
  }
  settler.verifyWith = async () => sumInFlight
  t.strictSame(await Promise.all([pay('poor-0'), pay('poor-1')]), [503, 503])
  t.equal(await payV1('poor-2'), 503)
  const asked = settler.calls.verify
  t.equal(await pay('poor-3'), 429)
  t.equal(await payV1('poor-4'), 429)
  t.equal(settler.calls.verify, asked, 'before any work on the payment')
})

t.test('whose bucket: by link, or by caller and link', async (t) => {
  const seller = await startSeller(t, 'hello')
  for (const keyBy of ['link', 'ip-and-link']) {
    const gateway = await startGateway(t, {
      plugins: limited({ points: 1, keyBy }),
      options: { trustedProxyCidrs: ['127.0.0.0/8'] },
    })
    const [a, b] = [
      await gateway.addLink({ slug: 'a', url: seller.url }),
      await gateway.addLink({ slug: 'b', url: seller.url }),
    ]
    const from = async (url: string, ip: string) =>
      (await fetch(url, { headers: { 'x-forwarded-for': ip } })).status
    t.equal(await from(a.url, '192.0.2.1'), 200)
    t.equal(await from(b.url, '192.0.2.1'), 200)
    t.equal(await from(a.url, '192.0.2.1'), 429)
    t.equal(await from(a.url, '192.0.2.2'), keyBy === 'link' ? 429 : 200)
  }
})

t.test('counters that answer later are waited for', async (t) => {
  const seller = await startSeller(t, 'hello')
  const gateway = await startGateway(t, {
    plugins: limited({ points: 1 }),
    adapt: (ports) => ({
      ...ports,
      counters: { ...ports.counters, take: async (...args) => ports.counters.take(...args) },
    }),
  })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  t.equal((await fetch(link.url)).status, 200)
  t.equal((await fetch(link.url)).status, 429)
})

t.test('a limit of one failed payment lets one through', async (t) => {
  const gateway = await startGateway(t, {
    settlers: [createScriptedSettler()],
    plugins: limited({ paymentPoints: 1, windowMs: 300 }),
  })
  const link = await gateway.addLink({ slug: 'paid', url: 'http://127.0.0.1:1', price: '0.10' })
  const pay = async () => (await fetch(link.url, { headers: { 'payment-signature': 'junk' } })).status
  t.equal(await pay(), 400)
  t.equal(await pay(), 429)
  await until(async () => (await pay()) === 400, 'the window to end')
})

t.test('addresses of one /64 share a bucket, and no two others do', () => {
  const groups = fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 })
  const spell = (g: number[]) => g.map((n) => n.toString(16)).join(':')
  fc.assert(
    fc.property(groups, groups, (a, b) => {
      const same = a.slice(0, 4).every((n, i) => n === b[i])
      return (
        (callerOf(spell(a)) === callerOf(spell(b))) === same &&
        callerOf(spell([...a.slice(0, 4), ...b.slice(4)])) === callerOf(spell(a))
      )
    }),
  )
  t.equal(callerOf('::1'), '0:0:0:0')
  t.equal(callerOf('2001:db8::'), '2001:db8:0:0')
  t.equal(callerOf('192.0.2.1'), '192.0.2.1')
  t.equal(callerOf('::FFFF:192.0.2.1'), '192.0.2.1')
  return Promise.resolve()
})
