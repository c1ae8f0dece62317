import { x402Client, x402HTTPClient } from '@x402/core/client'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { wrapFetchWithPayment } from '@x402/fetch'
import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { answerWell } from './helpers/api.ts'
import { newBuyer, present, read } from './helpers/buyers.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t)
const { chains, api, payTo, tollgate } = product
const [evm, solana] = chains.both
const { purchases } = tollgate.stack.store

const byHeader = { upTo: '0.10', by: 'header', otherwise: '0.07' }
const byTokens = { upTo: '0.10', by: { tokens: { input: '3', output: '15' } }, otherwise: '0.02' }
const metered = await product.addLink('metered', '0.01', { price: byHeader })
const streamed = await product.addLink('streamed', '0.01', { price: { ...byTokens, stream: true } })

/** The official client of the scheme, whose wallet has approved Permit2. */
async function newUptoBuyer() {
  const account = privateKeyToAccount(generatePrivateKey())
  await chains.evm.mintUsdc(account.address, 1_000_000n)
  await chains.evm.allowPermit2(account.address)
  const schemes = [{ network: evm.network, client: new UptoEvmScheme(account) }]
  const client = new x402HTTPClient(x402Client.fromConfig({ schemes }))
  return { account, fetchV2: wrapFetchWithPayment(fetch, client) as typeof fetch }
}

t.test('the official client pays what the seller states, and both figures are in the ledger', async (t) => {
  const buyer = await newUptoBuyer()
  const charged: readonly (readonly [string, bigint])[] = [
    ['50000', 50_000n],
    ['12.5%', 12_500n],
    ['$0.001', 1_000n],
    ['0', 0n],
    ['$3', 100_000n],
  ]
  for (const [n, [amount, expected]] of charged.entries()) {
    api.answerWith((request, response) => {
      response.setHeader('Settlement-Overrides', JSON.stringify({ amount }))
      return answerWell(request, response)
    })
    const before = await evm.balance(payTo(evm))
    const bought = await read(await buyer.fetchV2(`${metered}?n=${n}`))
    t.equal(bought.status, 200, bought.text)
    t.equal(bought.headers.get('settlement-overrides'), null)
    t.match(bought.receipt, { success: true, amount: String(expected), payer: buyer.account.address })
    t.equal((await evm.balance(payTo(evm))) - before, expected)
    t.match(await purchases.find(bought.body._svc!.purchaseId), {
      authorizedAtomic: 100_000n,
      amountAtomic: expected,
    })
  }
  api.answerWith(answerWell)
  t.match(await purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test('the official client reads a stream, and is charged for its tokens at the end', async (t) => {
  const buyer = await newUptoBuyer()
  const more = Promise.withResolvers<void>()
  api.answerWith(async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('data: {"choices":[{"delta":{"content":"hi"}}]}\n\n')
    await more.promise
    response.end('data: {"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":500}}\n\n')
  })
  const before = await evm.balance(payTo(evm))
  const response = await buyer.fetchV2(`${streamed}?n=stream`)
  t.equal(response.status, 200)
  const reader = response.body!.getReader()
  t.match(Buffer.from((await reader.read()).value!).toString(), /hi/, 'before the seller is done')
  more.resolve()
  while (!(await reader.read()).done);
  api.answerWith(answerWell)
  const id = response.headers.get('x-purchase-id')!
  const sold = await eventually(async () => {
    const found = await purchases.find(id)
    return found?.status === 'delivered' ? found : undefined
  })
  t.match(sold, { authorizedAtomic: 100_000n, amountAtomic: 10_500n, txHash: /^0x/ })
  t.equal((await evm.balance(payTo(evm))) - before, 10_500n)
})

t.test(
  'a buyer who takes the money away during a stream has bought nothing, and the payment stays open until it ends',
  async (t) => {
    const account = privateKeyToAccount(generatePrivateKey())
    await chains.evm.mintUsdc(account.address, 100_000n)
    await chains.evm.allowPermit2(account.address)
    const schemes = [{ network: evm.network, client: new UptoEvmScheme(account) }]
    const client = new x402HTTPClient(x402Client.fromConfig({ schemes }))
    const fetchV2 = wrapFetchWithPayment(fetch, client)
    api.answerWith(async (_request, response) => {
      await chains.evm.allowPermit2(account.address, 0n)
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end('{"usage":{"prompt_tokens":1000,"completion_tokens":500}}')
    })
    const before = await evm.balance(payTo(evm))
    const response = await fetchV2(`${streamed}?n=moved`)
    t.equal(response.status, 200)
    await response.text()
    api.answerWith(answerWell)
    await eventually(async () =>
      (await tollgate.stack.store.ledger.list({ states: ['pending'], limit: 1 })).length === 1
        ? true
        : undefined,
    )
    t.equal((await evm.balance(payTo(evm))) - before, 0n)
    t.equal(await purchases.find(response.headers.get('x-purchase-id')!), undefined)
  },
)

t.test(
  'the price is offered only where upto is settled, and a payment by exact does not buy it',
  async (t) => {
    const response = await fetch(metered)
    const { accepts } = (await response.json()) as { accepts: { scheme: string; network: string }[] }
    t.ok(accepts.length > 0)
    for (const entry of accepts) t.match(entry, { scheme: 'upto', network: evm.network, amount: '100000' })
    const link = await product.addLink('fixed', '0.10')
    const buyer = await newBuyer(chains, evm)
    t.match(await present(metered, await buyer.sign(link)), { status: 402 })
    t.not(solana.network, evm.network)
  },
)
