import t, { type Test } from 'tap'
import { silentLog } from '../core/ports/log.ts'
import { startPaid } from './helpers/paid.ts'
import { sellerOf } from './helpers/sellerOf.ts'

const plugins = ['rate-limit', 'x402', 'replay-guard', 'upstream', 'purchase-record'].map((use) => ({
  use,
  ...(use === 'rate-limit' && { with: { points: 3 } }),
}))

/** A gateway behind a proxy that is trusted, and the address that a seller is told. */
async function start(t: Test) {
  const warned: object[] = []
  const log = {
    ...silentLog,
    warn: (fields: object, message: string) => void warned.push({ ...fields, message }),
  }
  const options = { trustedProxyCidrs: ['127.0.0.0/8', '10.0.0.0/8'] }
  const paid = await startPaid(t, { plugins, log, options })
  const notified: (string | undefined)[] = []
  const seller = await sellerOf(t, (req, res) => {
    notified.push(req.headers['x-forwarded-for']?.toString())
    res.setHeader('content-type', 'application/json').end('{"for":"its buyer"}')
  })
  const free = await paid.gateway.addLink({ slug: 'free', url: seller.url })
  const sold = await paid.gateway.addLink({ slug: 'sold', url: seller.url, price: '0.10' })
  const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })
  return { ...paid, warned, notified, free, sold, from }
}

t.test(
  'a caller behind a trusted proxy is known in whichever form the proxy writes the address',
  async (t) => {
    const { call, free, notified, from } = await start(t)
    for (const [chain, address] of [
      ['192.0.2.1', '192.0.2.1'],
      ['203.0.113.9, 192.0.2.2:4711', '192.0.2.2'],
      ['"[2001:db8::3]:4711"', '2001:db8::3'],
      ['192.0.2.4:80, 10.0.0.1:443, "127.0.0.1:1"', '192.0.2.4'],
      ['::ffff:192.0.2.5', '192.0.2.5'],
      [`192.0.2.6${', 10.0.0.1'.repeat(31)}`, '192.0.2.6'],
      [`192.0.2.7${', 10.0.0.1'.repeat(3_000)}`, '10.0.0.1'],
      ['10.0.0.7, 10.0.0.1', '10.0.0.7'],
      ['192.0.2.6, unknown', 'unknown'],
      ['192.0.2.6, _hidden, 10.0.0.1', 'unknown'],
      ['192.0.2.6,', 'unknown'],
      ['fe80::1%eth-0', 'unknown'],
      ['192.0.2.6, ::1%a.b, 10.0.0.1', 'unknown'],
      ['', 'unknown'],
    ] as const) {
      t.equal((await call(free.url, from(chain))).status, 200, chain.slice(0, 80))
      t.equal(notified.at(-1), address, chain.slice(0, 80))
    }
  },
)

t.test('what cannot be read is no address that callers share', async (t) => {
  const { call, free, sold, from, settler } = await start(t)
  for (let nth = 0; nth < 5; nth++) t.equal((await call(free.url, from('unknown'))).status, 200, 'no limit')
  t.match(await call(sold.url, from('unknown')), { status: 200, body: { data: { for: 'its buyer' } } })
  const stranger = await call(sold.url, from('unknown'))
  t.equal(stranger.status, 409, 'no stored answer')
  t.notMatch(stranger.text, /its buyer|review/i)
  t.equal(settler.transfers.length, 1)
})

t.test('the operator hears of such a form once in a minute, with what to configure', async (t) => {
  const { call, free, from, warned } = await start(t)
  for (const chain of ['192.0.2.6', '"[2001:db8::3]:4711"', '192.0.2.4:80']) await call(free.url, from(chain))
  t.strictSame(warned, [], 'addresses in any form that is read')
  for (const chain of ['192.0.2.6, _hidden', 'unknown', `x${'y'.repeat(500)}`])
    await call(free.url, from(chain))
  t.match(warned, [
    { entry: '_hidden', proxy: '127.0.0.1', message: /no limit of its own.*trustedProxyCidrs/s },
  ])
  t.equal(warned.length, 1)
})

t.test('an Idempotency-Key gives its buyer the answer again all the same', async (t) => {
  const { call, sold, from } = await start(t)
  const keyed = { headers: { ...from('unknown').headers, 'idempotency-key': 'a-key-of-16-chars' } }
  for (let nth = 0; nth < 2; nth++) t.equal((await call(sold.url, keyed)).status, 200)
})

t.test(
  'buyers whose proxy adds their ports are told apart, and each is known again on another port',
  async (t) => {
    const { call, sold, free, from } = await start(t)
    t.equal((await call(sold.url, from('192.0.2.1:1000'))).status, 200)
    t.equal((await call(sold.url, from('192.0.2.1:2000'))).status, 200, 'the same buyer')
    t.equal((await call(sold.url, from('192.0.2.2:1000'))).status, 409, 'another one')
    const statuses = []
    for (const port of [1, 2, 3, 4]) statuses.push((await fetch(free.url, from(`192.0.2.3:${port}`))).status)
    t.strictSame(statuses, [200, 200, 200, 429])
  },
)
