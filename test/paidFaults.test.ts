import t from 'tap'
import { reaches, receiptOf, shortPlugins, startPaid } from './helpers/paid.ts'
import { openSocket, until } from './helpers/rawHttp.ts'
import { recoveryOf } from './helpers/recovery.ts'
import { type SellerKind, startSeller } from './helpers/sellers.ts'
import { scriptedPayment, scriptedSettled } from './helpers/settler.ts'

for (const kind of [
  'status-500',
  'silent',
  'stalled-body',
  'truncated',
  'reset',
  'big',
  'redirect',
  'invalid-status-line',
] as const satisfies SellerKind[]) {
  t.test(
    `after a seller's failure (${kind}) the same payment buys the call once the seller is back`,
    async (t) => {
      const { settler, gateway, call } = await startPaid(t)
      const bad = await startSeller(t, kind)
      const good = await startSeller(t, 'hello')
      const link = await gateway.addLink({ slug: 'paid', url: bad.url, price: '0.10' })
      const first = await call(link.url)
      t.match(first, {
        status: kind === 'silent' || kind === 'stalled-body' ? 504 : 502,
        body: { error: { message: /You were not charged/ } },
      })
      await reaches(gateway, 'rejected')
      t.equal(settler.transfers.length, 0)
      await until(() => settler.held === 0)
      await gateway.store.links.update(link.id, { url: good.url }, Date.now())
      const second = await call(link.url)
      t.match(second, { status: 200, body: { data: { hello: 'world' } } })
      t.strictSame(settler.transfers, ['n'])
      t.match(await gateway.store.purchases.ledgerCheck(), {
        purchases: 1,
        broken: { length: 0 },
        unbalanced: { length: 0 },
      })
    },
  )
}

t.test("a seller's refusal (4xx) passes as it is, and costs nothing", async (t) => {
  const { settler, gateway, call } = await startPaid(t)
  const seller = await startSeller(t, 'status-404')
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const response = await call(link.url)
  t.match(response, { status: 404, text: '{"error":"no such thing"}' })
  t.equal(response.headers.get('x-purchase-id'), null)
  t.equal(response.headers.get('payment-response'), null)
  t.equal(settler.transfers.length, 0)
  await reaches(gateway, 'rejected')
  await until(() => settler.held === 0)
})

t.test('a payment that the chain refuses is a 402 with its reason and a receipt that says so', async (t) => {
  const { settler, gateway, call } = await startPaid(t)
  const seller = await startSeller(t, 'hello')
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  settler.verifyWith = async () => ({ ok: false, reason: 'insufficient_funds', message: 'Not enough USDC.' })
  t.match(await call(link.url), {
    status: 402,
    body: { error: { code: 'invalid_payment', reason: 'insufficient_funds' }, accepts: [{}] },
  })
  t.equal(seller.requests.length, 0, 'refused before the seller worked')
  await reaches(gateway, 'rejected')

  settler.verifyWith = async () => ({ ok: true })
  settler.settleWith = async () => ({ status: 'rejected', reason: 'simulation_failed', message: 'no' })
  const rejected = await call(link.url)
  t.match(rejected, { status: 402, body: { error: { reason: 'simulation_failed' }, accepts: [{}] } })
  t.match(receiptOf(rejected.headers), { success: false, errorReason: 'simulation_failed', transaction: '' })
  await reaches(gateway, 'rejected')

  settler.settleWith = async () => undefined
  t.equal((await call(link.url)).status, 200, 'and is as good as before')
  t.equal(settler.transfers.length, 1)
})

t.test('trouble of our own or of the chain is a 503, and the same payment works later', async (t) => {
  const { settler, gateway, call } = await startPaid(t)
  const seller = await startSeller(t, 'hello')
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const away = { reason: 'rpc_unavailable', message: 'The chain is away.', transient: true } as const
  settler.verifyWith = async () => ({ ok: false, ...away })
  const first = await call(link.url)
  t.match(first, { status: 503, body: { error: { code: 'settlement_unavailable', retryable: true } } })
  t.ok(first.headers.get('retry-after'))
  settler.verifyWith = async () => ({ ok: true })
  settler.settleWith = async () => ({ status: 'rejected', ...away })
  await reaches(gateway, 'rejected')
  t.match(await call(link.url), { status: 503, body: { error: { code: 'settlement_unavailable' } } })
  settler.settleWith = async () => undefined
  await reaches(gateway, 'rejected')
  t.equal((await call(link.url)).status, 200)
  t.equal(settler.transfers.length, 1)
})

t.test('a settlement that failed for good is a 402, and that payment never works again', async (t) => {
  const { settler, gateway, call } = await startPaid(t)
  const seller = await startSeller(t, 'hello')
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  settler.settleWith = async () => ({
    status: 'failed_final',
    reason: 'transaction_failed',
    message: 'reverted',
    transaction: '0xdead',
  })
  const response = await call(link.url)
  t.equal(response.status, 402)
  t.match(receiptOf(response.headers), {
    success: false,
    transaction: '0xdead',
    errorReason: 'transaction_failed',
  })
  t.match(await call(link.url), {
    status: 402,
    body: { error: { code: 'invalid_payment', reason: 'transaction_failed' } },
  })
  t.equal(seller.requests.length, 1)
  t.match(await gateway.store.purchases.ledgerCheck(), { purchases: 0, broken: { length: 0 } })
})

for (const how of ['pending', 'throws'] as const) {
  t.test(
    `an unknown outcome (${how}) is 503 settlement_pending, and after the reconciler the stored answer`,
    async (t) => {
      const { settler, gateway, call } = await startPaid(t)
      const seller = await startSeller(t, 'hello')
      const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
      let isOnChain = false
      settler.settleWith = async () => {
        if (how === 'throws') throw new Error('the node hung up')
        return { status: 'pending', transaction: '0x1', reason: 'settlement_pending' }
      }
      const first = await call(link.url)
      t.match(first, {
        status: 503,
        body: { error: { code: 'settlement_pending' }, purchaseId: /^[0-9a-f-]{36}$/ },
      })
      t.ok(first.headers.get('retry-after'))
      const recovery = recoveryOf(gateway)
      await recovery.round()
      const again = await call(link.url)
      t.match(again, {
        status: 503,
        body: { error: { code: 'settlement_pending' }, purchaseId: first.body.purchaseId! },
      })
      settler.transfers.push('n')
      isOnChain = true
      t.ok(await recovery.round(), 'found on chain')
      const late = await call(link.url)
      t.match(late, {
        status: 200,
        body: { data: { hello: 'world' }, _svc: { purchaseId: first.body.purchaseId! } },
      })
      t.equal(late.headers.get('x-purchase-id'), first.body.purchaseId!)
      t.match(receiptOf(late.headers), { success: true })
      t.equal(seller.requests.length, 1, 'the seller ran once')
      t.ok(isOnChain)
      await reaches(gateway, 'delivered')
      t.match(await gateway.store.purchases.ledgerCheck(), {
        purchases: 1,
        broken: { length: 0 },
        unbalanced: { length: 0 },
      })
    },
  )
}

t.test(
  'a buyer who comes back after the payment has expired gets what it bought, and nothing else',
  async (t) => {
    const { settler, gateway, call } = await startPaid(t)
    const seller = await startSeller(t, 'hello')
    const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
    const late = (nonce: string) => ({
      headers: { 'payment-signature': scriptedPayment(nonce, '100000', undefined, { isLate: true }) },
    })
    t.match(await call(link.url, late('other')), {
      status: 402,
      body: { error: { code: 'invalid_payment', reason: /valid_before/ } },
    })
    const first = await call(link.url)
    t.equal(first.status, 200)
    t.equal((await call(link.url, late('n'))).text, first.text)
    t.match(await call(`${link.url}/else`, late('n')), {
      status: 409,
      body: { error: { code: 'payment_already_used' } },
    })
    settler.settleWith = async () => ({ status: 'pending', transaction: '0x1', reason: 'settlement_pending' })
    await call(link.url, { headers: { 'payment-signature': scriptedPayment('slow', '100000') } })
    t.match(await call(link.url, late('slow')), {
      status: 503,
      body: { error: { code: 'settlement_pending' } },
    })
    t.equal(seller.requests.length, 2)
  },
)

t.test(
  'a buyer who left while the payment settled gets the answer later, also after the time for repeats',
  async (t) => {
    const { settler, gateway, headers, call } = await startPaid(t, {
      plugins: shortPlugins.map((p) =>
        p.use === 'replay-guard' ? { ...p, with: { replayWindowMs: 0, joinTimeoutMs: 300 } } : p,
      ),
    })
    const seller = await startSeller(t, 'hello')
    const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
    const settling = Promise.withResolvers<void>()
    const mayGoOn = Promise.withResolvers<void>()
    settler.settleWith = async () => {
      settling.resolve()
      await mayGoOn.promise
      return undefined
    }
    const socket = await openSocket(t, gateway.port)
    socket.write(
      `GET ${link.path} HTTP/1.1\r\nHost: g\r\nPayment-Signature: ${headers['payment-signature']}\r\n\r\n`,
    )
    await settling.promise
    socket.destroy()
    await new Promise((resolve) => setTimeout(resolve, 20))
    mayGoOn.resolve()
    await reaches(gateway, 'settled')
    const later = await call(link.url)
    t.match(later, { status: 200, body: { data: { hello: 'world' } } })
    await reaches(gateway, 'delivered')
    t.equal((await call(link.url)).status, 409, 'delivered once, and the time for repeats is over')
    t.equal(seller.requests.length, 1)
    t.equal(settler.transfers.length, 1)
  },
)

t.test('a round asks about many open or settled payments in one go', async (t) => {
  const { gateway, settler, call } = await startPaid(t)
  const seller = await startSeller(t, 'hello')
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  settler.settleWith = async (_transfer, { key }) => ({
    status: 'pending',
    transaction: `0x${key}`,
    reason: 'settlement_pending',
  })
  const nonces = Array.from({ length: 40 }, (_, i) => `n${i}`)
  for (const nonce of nonces) {
    const headers = { 'payment-signature': scriptedPayment(nonce, '100000', `0x${nonce.padStart(40, '0')}`) }
    t.equal((await call(link.url, { headers })).status, 503)
  }
  settler.recoverOne = async ({ attempt, amountAtomic }) =>
    scriptedSettled(attempt!.transaction, amountAtomic)
  let lookedUp = 0
  settler.stillOnChain = async (records) => {
    lookedUp++
    return records.map(() => 'yes' as const)
  }
  const recovery = recoveryOf(gateway)
  t.equal(await recovery.round(), nonces.length)
  t.equal(settler.calls.recover, 1)
  await recovery.round()
  t.equal(lookedUp, 1)
})
