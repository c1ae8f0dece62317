import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { newBuyer, present, read } from './helpers/buyers.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t)
const { chains, api, payTo, tollgate } = product
const { purchases } = tollgate.stack.store

const table = {
  rules: [
    { when: { query: { size: 'large' } }, price: '0.05' },
    { when: { method: 'POST', body: { '/model': 'big' } }, price: '0.03' },
  ],
  otherwise: '0.01',
}
const url = await product.addLink('priced', '0.01', { price: table })

for (const chain of chains.both) {
  t.test(`public clients pay the price of each request on ${chain.name}, and no other`, async (t) => {
    const buyer = await newBuyer(chains, chain)
    const buy = async (target: string, init: RequestInit, amount: bigint) => {
      const before = await chain.balance(payTo(chain))
      const bought = await read(await buyer.fetchV2(target, init))
      t.equal(bought.status, 200, bought.text)
      t.equal((await chain.balance(payTo(chain))) - before, amount)
      t.match(bought.receipt, { success: true, amount: String(amount) })
      t.match(await purchases.find(bought.body._svc!.purchaseId), { amountAtomic: amount })
    }
    await buy(`${url}?n=1`, {}, 10_000n)
    await buy(`${url}?n=1&size=large`, {}, 50_000n)
    const body = JSON.stringify({ model: 'big' })
    const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body }
    await buy(`${url}?n=2`, post, 30_000n)

    const before = await chain.balance(payTo(chain))
    const calls = api.calls.length
    const cheap = await buyer.sign(`${url}?n=3`)
    t.match(await present(`${url}?n=3&size=large`, cheap), { status: 402 })
    t.match(await present(`${url}?n=3&size=small&size=large`, cheap), { status: 400 })
    t.equal(api.calls.length, calls)
    t.equal(await chain.balance(payTo(chain)), before)
    t.match(await present(`${url}?n=3`, cheap), { status: 200 }, 'the payment is still good for its request')
  })
}

t.test('the price that a server states is paid, and its failure sells nothing', async (t) => {
  let amount: string | null = '0.02'
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (amount === null) response.writeHead(500).end()
      else response.end(JSON.stringify({ amount }))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  const priceUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/price`
  const asked = await product.addLink('asked', '0.01', {
    price: { url: priceUrl, max: '0.10', fallback: null },
  })
  const chain = chains.both[0]!
  const buyer = await newBuyer(chains, chain)
  const before = await chain.balance(payTo(chain))
  const bought = await read(await buyer.fetchV2(`${asked}?n=1`))
  t.equal(bought.status, 200, bought.text)
  t.equal((await chain.balance(payTo(chain))) - before, 20_000n)
  amount = null
  t.equal((await fetch(`${asked}?n=2`)).status, 503)
  amount = '0.11'
  t.equal((await fetch(`${asked}?n=2`)).status, 503)
  t.match(await purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
})
