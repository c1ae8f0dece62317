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
    ...{ linkId: link.id, storeId: gateway.storeId, network: testNetwork, asset: testAsset, symbol: 'USDC' },
    ...{ amountAtomic: 100_000n, feeAtomic: 5_000n, txHash: /^0x/, priceUsd: /^0\.10*$/ },
  })
  const entries = await gateway.store.purchases.ledger(_svc.purchaseId)
  t.equal(entries.length, 4)
  t.equal(
    entries.reduce((sum, { amountAtomic }) => sum + amountAtomic, 0n),
    0n,
  )
  await until(async () => (await gateway.store.purchases.find(_svc.purchaseId))?.status === 'delivered')
})

t.test('views are the calls that saw the price, counted in memory and written now and then', async (t) => {
  const gateway = await startGateway(t, { settlers: [createScriptedSettler()], plugins })
  const link = await gateway.addLink({ slug: 'paid', url: 'http://127.0.0.1:1', price: '0.10' })
  await Promise.all(Array.from({ length: 7 }, () => fetch(link.url)))
  await fetch(link.url, { headers: { 'payment-signature': 'junk' } })
  const views = async () => (await gateway.store.purchases.stats(gateway.storeId, { sinceMs: 0 })).views
  await gateway.gateway.swap(await gateway.build(plugins))
  t.equal(await views(), 7, 'the last ones are written when the configuration is reloaded')
  await fetch(link.url)
  await gateway.gateway.swap(await gateway.build(plugins))
  t.equal(await views(), 8)
})
