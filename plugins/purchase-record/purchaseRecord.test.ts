import t from 'tap'
import { startGateway } from '../../test/helpers/gateway.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { startSeller } from '../../test/helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment, testAsset, testNetwork } from '../../test/helpers/settler.ts'

const plugins = [
  { use: 'x402' },
  { use: 'replay-guard' },
  { use: 'upstream' },
  { use: 'purchase-record', with: { viewsFlushMs: 100 } },
]

t.test('a purchase says who bought what for how much, and its entries cancel out', async (t) => {
  const seller = await startSeller(t, 'hello')
  const gateway = await startGateway(t, { settlers: [createScriptedSettler()], plugins })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const response = await fetch(link.url, { headers: { 'payment-signature': scriptedPayment('n', '100000') } })
  const { _svc } = (await response.json()) as { _svc: { purchaseId: string } }
  const purchase = await gateway.store.purchases.find(_svc.purchaseId)
  t.match(purchase, {
    linkId: link.id,
    storeId: gateway.storeId,
    network: testNetwork,
    asset: testAsset,
    symbol: 'USDC',
    amountAtomic: 100_000n,
    feeAtomic: 5_000n,
    txHash: /^0x/,
    priceUsd: /^0\.10*$/,
  })
  const entries = await gateway.store.purchases.ledger(_svc.purchaseId)
  t.equal(entries.length, 4)
  t.equal(
    entries.reduce((sum, { amountAtomic }) => sum + amountAtomic, 0n),
    0n,
  )
  await until(async () => (await gateway.store.purchases.find(_svc.purchaseId))?.status === 'delivered')
})

t.test('a view is a caller of an hour who saw the price, or called a free link', async (t) => {
  const seller = await startSeller(t, 'hello')
  let ahead = 0
  const gateway = await startGateway(t, {
    settlers: [createScriptedSettler()],
    plugins,
    options: { trustedProxyCidrs: ['127.0.0.0/8'] },
    adapt: (ports) => ({ ...ports, clock: { now: () => Date.now() + ahead } }),
  })
  const paid = await gateway.addLink({ slug: 'paid', url: 'http://127.0.0.1:1', price: '0.10' })
  const free = await gateway.addLink({ slug: 'free', url: seller.url, price: '0' })
  const views = async () => {
    await (await gateway.gateway.swap(await gateway.build(plugins))).retired
    const { views, challenges } = await gateway.store.stats.totals(gateway.storeId, {
      fromMs: 0,
      toMs: Number.MAX_SAFE_INTEGER,
    })
    return [views, challenges]
  }
  const call = async ({ url }: { url: string }, caller: string, headers = {}) =>
    (await fetch(url, { headers: { 'x-forwarded-for': caller, ...headers } })).text()
  const twice = ['203.0.113.1', '203.0.113.2', '203.0.113.1', '2001:db8::1', '2001:db8::2']
  for (const link of [paid, free]) await Promise.all(twice.map((caller) => call(link, caller)))
  await call(paid, '203.0.113.9', { 'payment-signature': 'junk' })
  ahead = 3_590_000
  await call(paid, '203.0.113.1')
  ahead = 3_700_000
  await call(paid, '203.0.113.1')
  t.strictSame(await views(), [7, 7], 'three callers of each link, and one of them an hour later')
  await call(free, '203.0.113.1')
  t.strictSame(await views(), [8, 7], 'the last ones are written when the configuration is reloaded')
})
