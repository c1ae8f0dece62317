import { base58 } from '@scure/base'
import t from 'tap'
import { createEvmBuyer } from '../../buyer/chains/evmBuyer.ts'
import { createSolanaBuyer } from '../../buyer/chains/solanaBuyer.ts'
import { payForUrl } from '../../buyer/payForUrl.ts'
import type { PayOptions } from '../../buyer/payOptions.ts'
import { createPaymentFiles } from '../../cli/pay/paymentFiles.ts'
import { newBuyer, read } from './helpers/buyers.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t)
const { chains, api, payTo, tollgate } = product
const url = await product.addLink('weather')

t.test('an unpaid call gets the same offer in header and body, for both chains', async (t) => {
  const response = await fetch(`${url}?n=unpaid`)
  t.equal(response.status, 402)
  t.equal(response.headers.get('cache-control'), 'no-store')
  const body = (await response.json()) as { accepts: { extra: unknown }[] }
  const header = JSON.parse(Buffer.from(response.headers.get('payment-required')!, 'base64').toString())
  t.strictSame(header, body)
  t.match(body, { x402Version: 2, resource: { url, mimeType: 'application/json' } })
  const expected = chains.both.map((chain) => ({
    scheme: 'exact',
    network: chain.network,
    amount: '10000',
    asset: chain.usdc,
    payTo: payTo(chain),
    maxTimeoutSeconds: 300,
  }))
  t.match(body.accepts, expected)
  t.match(body.accepts[0]?.extra, { name: 'USDC', version: '2', decimals: 6 })
  t.match(body.accepts[1]?.extra, { feePayer: String, decimals: 6 })
  t.strictSame(api.calls, [], 'the seller was not asked')
})

for (const chain of chains.both) {
  t.test(`@x402/fetch buys a call on ${chain.name}, and the chain shows it`, async (t) => {
    const buyer = await newBuyer(chains, chain)
    const [before, had] = [await chain.balance(payTo(chain)), await chain.balance(buyer.address)]
    const called = api.calls.length
    const bought = await read(await buyer.fetchV2(`${url}?n=v2-${chain.name}`))

    t.equal(bought.status, 200, bought.text)
    t.match(bought.body, { data: { target: /\/weather\?n=/ }, _svc: { purchaseId: String } })
    t.equal(bought.headers.get('cache-control'), 'private, no-store')
    t.match(bought.receipt, { success: true, payer: buyer.address })
    t.ok((await chain.transfersTo(payTo(chain))).includes(bought.receipt!.transaction))
    t.equal((await chain.balance(payTo(chain))) - before, 10_000n, 'exactly the price came in')
    t.equal(had - (await chain.balance(buyer.address)), 10_000n, 'exactly the price went out')
    t.equal(api.calls.length - called, 1)
    const purchase = await tollgate.stack.store.purchases.find(bought.body._svc!.purchaseId)
    t.match(purchase, { txHash: bought.receipt!.transaction, amountAtomic: 10_000n, feeAtomic: 500n })
  })

  t.test(
    `tollgate pay buys a call on ${chain.name} and believes the receipt only by the chain`,
    async (t) => {
      const buyer = await newBuyer(chains, chain)
      const payments = createPaymentFiles(t.testdir())
      const rpcUrl = chain.name === 'evm' ? chains.evm.rpcUrl : chains.solana.rpcUrl
      const wallets: PayOptions['wallets'] =
        chain.name === 'evm'
          ? { eip155: createEvmBuyer({ privateKey: buyer.privateKey as `0x${string}`, rpcUrl }) }
          : { solana: createSolanaBuyer({ secret: base58.decode(buyer.privateKey), rpcUrl }) }
      const before = await chain.balance(payTo(chain))
      const report = await payForUrl({ url: `${url}?n=pay-${chain.name}`, wallets, rpcUrl, payments })
      t.match(report, { outcome: 'paid', isVerified: true, charged: 'yes', attempts: 1 })
      t.equal((await chain.balance(payTo(chain))) - before, 10_000n)
      t.ok((await chain.transfersTo(payTo(chain))).includes(report.transaction!))
    },
  )
}

t.test('HEAD is the offer without a body, and OPTIONS is not a way past the price', async (t) => {
  const called = api.calls.length
  const head = await fetch(`${url}?n=head`, { method: 'HEAD' })
  t.equal(head.status, 402)
  t.ok(head.headers.get('payment-required'))
  t.equal((await fetch(`${url}?n=options`, { method: 'OPTIONS' })).status, 204)
  t.equal(api.calls.length, called)
})

t.test('the books agree with the chains', async (t) => {
  const findings = await product.doctor()
  t.strictSame(
    findings.filter((finding) => !finding.ok),
    [],
  )
  const ledger = await tollgate.stack.store.purchases.ledgerCheck()
  const transfers = await Promise.all(chains.both.map((chain) => chain.transfersTo(payTo(chain))))
  t.equal(ledger.purchases, transfers.flat().length)
})
