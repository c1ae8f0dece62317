import { join } from 'node:path'
import { decodePaymentResponseHeader } from '@x402/core/http'
import t, { type Test } from 'tap'
import { TollgateError } from '../../core/errors/error.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { type Exchange, gatewayPlugin } from '../../core/plugin/gateway.ts'
import type { PaymentChange } from '../../core/ports/store/ledger.ts'
import { startGateway, type TestGatewayOptions } from '../../test/helpers/gateway.ts'
import { reaches, stateOf } from '../../test/helpers/paid.ts'
import { noOptions } from '../../test/helpers/plugins.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { sellerOf } from '../../test/helpers/sellerOf.ts'
import { createScriptedSettler, scriptedPayment, scriptedPaymentV1 } from '../../test/helpers/settler.ts'

const headers = { 'payment-signature': scriptedPayment('n', '100000') }

/** A gateway whose seller and whose chain can be held, and whose calls can be inspected. */
async function start(t: Test, settle: 'after' | 'before', options: TestGatewayOptions = {}) {
  const calls: Exchange[] = []
  const ended: Exchange[] = []
  const spy = gatewayPlugin({
    name: 'spy',
    api: 1,
    needs: [],
    options: noOptions,
    setup: () => ({ route: () => ({ guard: (x) => void calls.push(x), log: (x) => void ended.push(x) }) }),
  })
  const plugins = ['x402', 'replay-guard', 'upstream', 'purchase-record', 'spy'].map((use) => ({ use }))
  const held = { seller: Promise.resolve(), chain: Promise.resolve() }
  const seller = await sellerOf(t, async (_req, res) => {
    await held.seller
    res.writeHead(200, { 'content-type': 'application/json' }).end('{"a":1}')
  })
  const settler = createScriptedSettler()
  settler.settleWith = async () => {
    await held.chain
    return undefined
  }
  const gateway = await startGateway(t, { settlers: [settler], plugins, extraPlugins: [spy], ...options })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10', settle })
  /** Calls, and disconnects at `moment`. */
  async function abort(moment: () => boolean): Promise<void> {
    const patience = new AbortController()
    const nth = calls.length
    const call = fetch(link.url, { headers, signal: patience.signal })
    await until(moment)
    patience.abort()
    await t.rejects(call)
    await until(() => calls[nth]!.transport.isClosed)
  }
  const hold = (what: 'seller' | 'chain') => {
    const { promise, resolve } = Promise.withResolvers<void>()
    held[what] = promise
    return resolve
  }
  return { gateway, link, seller, settler, calls, ended, plugins, abort: abort, hold }
}

t.test('an answer that a repeat was given is delivered, although the first caller has left', async (t) => {
  const { gateway, link, settler, calls, abort, hold } = await start(t, 'after')
  const goOn = hold('chain')
  await abort(() => settler.calls.settle === 1)
  const repeat = fetch(link.url, { headers })
  await until(() => calls.length === 2 && settler.calls.check === 2)
  goOn()
  t.equal((await repeat).status, 200)
  await reaches(gateway, 'delivered')
})

t.test('a repeat that leaves before it has the stored answer leaves it for the next one', async (t) => {
  let mayAsk = Promise.resolve()
  const requests: string[] = []
  const moved: string[] = []
  const { gateway, link, settler, ended, abort, hold } = await start(t, 'after', {
    adaptLedger: (ledger) => ({
      ...ledger,
      apply(change: PaymentChange) {
        if (change.from.includes('settled') && change.to !== 'settled') moved.push(change.to)
        return ledger.apply(change)
      },
      async claim(request) {
        requests.push(request.key)
        await mayAsk
        return ledger.claim(request)
      },
    }),
  })
  const settleNow = hold('chain')
  await abort(() => settler.calls.settle === 1)
  settleNow()
  await reaches(gateway, 'settled')
  const { promise, resolve } = Promise.withResolvers<void>()
  mayAsk = promise
  await abort(() => requests.length === 2)
  resolve()
  await until(() => ended.length === 2)
  t.strictSame(moved, [], 'nobody has it yet')
  t.equal((await fetch(link.url, { headers })).status, 200)
  await reaches(gateway, 'delivered')
})

t.test('a repeat after a reload waits for the call that began before it', async (t) => {
  let isUnavailable = false
  const { gateway, link, seller, settler, plugins, hold } = await start(t, 'after', {
    adaptLedger: (ledger) => ({
      ...ledger,
      claim: (request) =>
        isUnavailable ? Promise.reject(new TollgateError('store_unavailable')) : ledger.claim(request),
    }),
  })
  const goOn = hold('seller')
  const first = fetch(link.url, { headers })
  await until(() => seller.calls === 1)
  const swapped = gateway.gateway.swap(await gateway.build(plugins))
  isUnavailable = true
  const second = fetch(link.url, { headers })
  await until(() => settler.calls.check === 2)
  isUnavailable = false
  t.equal(await stateOf(gateway), 'claimed')
  const third = fetch(link.url, { headers })
  await until(() => settler.calls.check === 3)
  goOn()
  const texts = await Promise.all([first, second, third].map(async (one) => (await one).text()))
  t.equal(new Set(texts).size, 1, texts.join('\n'))
  t.equal(seller.calls, 1)
  t.strictSame(settler.transfers, ['n'])
  await swapped
})

for (const isFirstV1 of [true, false]) {
  t.test(
    `who joins a call of ${isFirstV1 ? 'version 1 by version 2' : 'version 2 by version 1'} reads a receipt of its own`,
    async (t) => {
      const { link, seller, settler, hold } = await start(t, 'after')
      const goOn = hold('seller')
      const v1 = { 'x-payment': scriptedPaymentV1('n', '100000') }
      const first = fetch(link.url, { headers: isFirstV1 ? v1 : headers })
      await until(() => seller.calls === 1)
      const second = fetch(link.url, { headers: isFirstV1 ? headers : v1 })
      await until(() => settler.calls.check === 2)
      goOn()
      const [one, other] = isFirstV1 ? [await second, await first] : [await first, await second]
      t.equal(one.headers.get('x-payment-response'), null)
      t.equal(other.headers.get('payment-response'), null)
      const receipts = [one.headers.get('payment-response')!, other.headers.get('x-payment-response')!].map(
        decodePaymentResponseHeader,
      )
      t.match(receipts[0], { success: true, network: 'eip155:84532' })
      t.strictSame(receipts[1], { ...receipts[0], network: 'base-sepolia' })
      t.equal(seller.calls, 1)
    },
  )
}

t.test(
  'another call hears soon that the payment is used, while the answer that it bought is still on its way',
  async (t) => {
    let polls = 0
    const { gateway, link, seller, hold } = await start(t, 'before', { dbPath: join(t.testdir(), 'one.db') })
    const goOn = hold('seller')
    const first = fetch(link.url, { headers })
    await until(() => seller.calls === 1)
    await reaches(gateway, 'settled')
    // As another process of the fleet sees it.
    const elsewhere = await startGateway(t, {
      settlers: [createScriptedSettler()],
      store: gateway.store,
      adaptLedger: (ledger) => ({
        ...ledger,
        claim(request) {
          polls++
          return ledger.claim(request)
        },
      }),
    })
    const other = await fetch(`${elsewhere.url}${link.path}?another`, { headers })
    t.equal(other.status, 409)
    t.match(await other.json(), { error: { message: /This payment was charged/ } })
    t.equal(polls, 1, 'who waits does not write')
    goOn()
    t.equal((await first).status, 200)
  },
)

t.test('who has read a payment on chain does not join the call that it is for', async (t) => {
  const from = (address: string) => ({ headers: { ...headers, 'x-forwarded-for': address } })
  const proxied = { options: { trustedProxyCidrs: ['127.0.0.0/8'] } }
  const { gateway, link, seller, settler, hold } = await start(t, 'before', proxied)
  const goOn = hold('seller')
  const first = fetch(link.url, from('192.0.2.1'))
  await until(() => seller.calls === 1)
  await reaches(gateway, 'settled')
  const stranger = await fetch(link.url, from('198.51.100.9'))
  t.equal(stranger.status, 409)
  t.equal(stranger.headers.get('x-review-token'), null)
  const buyer = fetch(link.url, from('192.0.2.1'))
  await until(() => settler.calls.check === 3)
  goOn()
  t.equal(await (await buyer).text(), await (await first).text())
  t.equal(seller.calls, 1)
})

t.test('before a payment is sent to the chain, whoever has it is its buyer, from wherever', async (t) => {
  const from = (address: string) => ({ headers: { ...headers, 'x-forwarded-for': address } })
  const proxied = { options: { trustedProxyCidrs: ['127.0.0.0/8'] } }
  const { link, seller, settler, hold } = await start(t, 'after', proxied)
  const goOn = hold('seller')
  const first = fetch(link.url, from('192.0.2.1'))
  await until(() => seller.calls === 1)
  const moved = fetch(link.url, from('198.51.100.9'))
  await until(() => settler.calls.check === 2)
  // Lets it join, which it does in this process and without another read of the database.
  await new Promise((resolve) => setImmediate(resolve))
  goOn()
  t.equal(await (await moved).text(), await (await first).text())
  t.equal((await fetch(link.url, from('198.51.100.9'))).status, 409, 'and later on anybody may have it')
})

t.test('a buyer who repeats a call without its Idempotency-Key hears that the key is needed', async (t) => {
  const { link } = await start(t, 'after')
  const key = { 'idempotency-key': 'the-key-of-the-call' }
  await fetch(link.url, { headers: { ...headers, ...key } })
  const keyless = await fetch(link.url, { headers })
  t.equal(keyless.status, 409)
  t.match(
    await keyless.text(),
    /only to a caller with the payment identifier or Idempotency-Key of the first call/,
  )
  t.equal((await fetch(link.url, { headers: { ...headers, ...key } })).status, 200)
})

t.test(
  'a buyer whose repeat alone has an Idempotency-Key is known by the address of the first call',
  async (t) => {
    const from = (address: string, key?: string) => ({
      headers: {
        ...headers,
        'x-forwarded-for': address,
        ...(key !== undefined && { 'idempotency-key': key }),
      },
    })
    const proxied = { options: { trustedProxyCidrs: ['127.0.0.0/8'] } }
    const { link, seller } = await start(t, 'after', proxied)
    const first = await (await fetch(link.url, from('192.0.2.1'))).text()
    const repeat = await fetch(link.url, from('192.0.2.1', 'a-key-of-the-retry-only'))
    t.equal(repeat.status, 200)
    t.equal(await repeat.text(), first)
    const stranger = await fetch(link.url, from('198.51.100.9', 'a-key-of-the-retry-only'))
    t.equal(stranger.status, 409, 'a key that came with no first call says nothing')
    t.equal(seller.calls, 1)
  },
)

t.test('a large text that many ask for at once is quoted once', async (t) => {
  const note = createPurchaseNotes({ mac: () => Buffer.alloc(32) }, '_svc').of('a-purchase', true)
  const response = {
    status: 200,
    headers: ['Content-Type', 'text/plain'],
    body: Buffer.from('x"\n'.repeat(50_000)),
  }
  const bodyOf = () => paidReply(response, 'text/plain', note, [], false).body as readonly Uint8Array[]
  const [first, second] = [bodyOf(), bodyOf()]
  t.match(JSON.parse(Buffer.concat(first).toString()), { data: String(response.body) })
  t.equal(first[1], second[1])
})
