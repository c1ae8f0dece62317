import { declareEip2612GasSponsoringExtension } from '@x402/extensions'
import t from 'tap'
import { newBuyer, read } from './helpers/buyers.ts'
import { startChains } from './helpers/chains.ts'
import { buySponsored, buyTwenty, startMetered } from './helpers/metered.ts'
import { startProduct } from './helpers/product.ts'

t.test('an unmodified client pays what its call has used', async (t) => {
  const f = await startMetered(t)
  const { chains, chain, tollgate, api } = f
  const target = `${f.url}?n=1`
  const buyer = await f.newUptoBuyer()
  f.states('4000')

  const unpaid = await fetch(target)
  t.match(JSON.parse(Buffer.from(unpaid.headers.get('payment-required')!, 'base64').toString()), {
    accepts: [
      {
        scheme: 'upto',
        network: chain.network,
        amount: '10000',
        asset: chain.usdc,
        extra: { name: 'USDC', version: '2', assetTransferMethod: 'permit2', facilitatorAddress: /^0x/ },
      },
    ],
  })

  const early = await buyer.pay(target)
  t.match(early, {
    status: 412,
    receipt: { success: false, errorReason: 'permit2_allowance_required' },
    body: {
      error: { code: 'invalid_payment', reason: 'permit2_allowance_required', message: /approve\(0x0000/ },
      approval: { to: chain.usdc, data: /^0x095ea7b3/ },
      accepts: [{ scheme: 'upto' }],
    },
  })
  t.equal(api.calls.length, 0)
  const { approval } = early.body as { approval: { to: string; data: string } }
  await chains.evm.fundEth(buyer.address, 10n ** 18n)
  await chains.evm.rpc('anvil_impersonateAccount', buyer.address)
  await chains.evm.send({ from: buyer.address, ...approval })

  const bought = await buyer.pay(target)
  t.match(bought, { status: 200, receipt: { success: true, amount: '4000', payer: buyer.address } })
  t.notOk(bought.headers.has('settlement-overrides'))
  t.equal(await chain.balance(f.payTo(chain)), 4_000n)
  const purchase = await tollgate.stack.store.purchases.find(bought.body._svc!.purchaseId)
  t.match(purchase, { txHash: bought.receipt!.transaction, amountAtomic: 4_000n, feeAtomic: 200n })

  f.states('50')
  const tiny = await buyer.pay(target)
  t.match(tiny, { status: 200, receipt: { success: true, amount: '50', transaction: /^0x/ } })
  t.equal(await chain.balance(f.payTo(chain)), 4_050n, 'a use below minPrice is charged as it is')

  f.states('0')
  const free = await buyer.pay(target)
  t.match(free, { status: 200, receipt: { success: true, amount: '0', transaction: '' } })
  t.equal(await chain.balance(f.payTo(chain)), 4_050n)
})

t.test('an unmodified client pays a token without EIP-3009 by Permit2', async (t) => {
  const chains = await startChains(t)
  const [chain] = chains.both
  const token = { network: chain.network, address: chain.usdc, transferMethod: 'permit2', hasPermit: false }
  const product = await startProduct(t, { sections: { assets: [token] } }, chains)
  const target = `${await product.addLink('exact')}?n=1`
  const buyer = await newBuyer(chains, chain)
  t.match(await read(await buyer.fetchV2(target)), {
    status: 412,
    receipt: { errorReason: 'permit2_allowance_required' },
  })
  await chains.evm.allowPermit2(buyer.address as `0x${string}`)
  const bought = await read(await buyer.fetchV2(target))
  t.match(bought, { status: 200, receipt: { success: true, amount: '10000', payer: buyer.address } })
  t.equal(await chain.balance(product.payTo(chain)), 10_000n)
})

t.test('an unmodified client pays a token with permits by Permit2 at once', async (t) => {
  const chains = await startChains(t)
  const [chain] = chains.both
  const token = { network: chain.network, address: chain.usdc, transferMethod: 'permit2' }
  const product = await startProduct(t, { sections: { assets: [token] } }, chains)
  const target = `${await product.addLink('exact')}?n=1`
  const offer = JSON.parse(
    Buffer.from((await fetch(target)).headers.get('payment-required')!, 'base64').toString(),
  )
  const [declared] = Object.values(declareEip2612GasSponsoringExtension())
  t.match(offer.extensions.eip2612GasSponsoring, {
    info: declared!.info,
    schema: { type: 'object', required: declared!.schema.required },
  })
  const buyer = await newBuyer(chains, chain)
  for (const paid of [10_000n, 20_000n]) {
    const bought = await read(await buyer.fetchV2(target))
    t.match(bought, { status: 200, receipt: { success: true, amount: '10000', payer: buyer.address } })
    t.equal(await chain.balance(product.payTo(chain)), paid)
  }
})

t.test('the first calls of 20 buyers at once need no allowance', (t) => buySponsored(t, {}, 0))

t.test('20 calls at once are each charged what they have used', (t) => buyTwenty(t, {}, 0))
