import t from 'tap'
import { newBuyer, present, read } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { startGateway } from './helpers/child.ts'
import { writeConfig } from './helpers/config.ts'
import { eventually } from './helpers/eventually.ts'
import { startReferenceFacilitator } from './helpers/facilitator.ts'
import { startProduct } from './helpers/product.ts'
import { openStore } from './helpers/store.ts'

const chains = await startChains(t)
const facilitator = await startReferenceFacilitator(t, chains)
const remote = { facilitator: { url: facilitator.url }, settleTimeoutMs: 2_500 }
const product = await startProduct(t, { evm: remote, solana: remote }, chains)
const { api, payTo, tollgate } = product
const { purchases } = tollgate.stack.store

const callsTo = (target: string) => api.calls.filter((call) => target.endsWith(call)).length

for (const chain of chains.both) {
  const url = await product.addLink(`remote-${chain.name}`)

  t.test(`a payment is settled by the reference facilitator on ${chain.name}`, async (t) => {
    const buyer = await newBuyer(chains, chain)
    const [verified, settled] = [facilitator.requests('verify'), facilitator.requests('settle')]
    const bought = await read(await buyer.fetchV2(`${url}?n=well`))
    t.equal(bought.status, 200, bought.text)
    t.equal(await chain.balance(payTo(chain)), 10_000n)
    t.strictSame(await chain.transfersTo(payTo(chain)), [bought.receipt?.transaction])
    t.equal(facilitator.requests('verify') - verified, 1)
    t.equal(facilitator.requests('settle') - settled, 1)
    t.equal(chain.rpc.calls(chain.methods.broadcast), 0, 'the gateway itself sends nothing to the chain')
  })

  t.test(
    `a facilitator that settles on ${chain.name} and says nothing is not asked to pay again`,
    async (t) => {
      const buyer = await newBuyer(chains, chain)
      const target = `${url}?n=silent`
      const payment = await buyer.sign(target)
      const before = (await chain.transfersTo(payTo(chain))).length
      const settled = facilitator.requests('settle')
      facilitator.be('silent')
      const first = await present(target, payment)
      t.match(first, { status: 503, body: { error: { code: 'settlement_pending' }, purchaseId: String } })
      facilitator.be('well')
      const last = await eventually(async () => {
        const response = await present(target, payment)
        return response.status === 503 ? undefined : response
      })
      t.equal(last.status, 200, last.text)
      t.equal(last.body._svc?.purchaseId, first.body.purchaseId)
      const transfers = await chain.transfersTo(payTo(chain))
      t.equal(transfers.length - before, 1)
      t.equal(last.receipt?.transaction, transfers.at(-1), 'found by reading the chain')
      t.equal(facilitator.requests('settle') - settled, 1)
      t.equal(callsTo(target), 1, 'the seller worked once')
    },
  )

  t.test(`what the facilitator refuses on ${chain.name} is refused with its reason`, async (t) => {
    const poor = await newBuyer(chains, chain, 9_999n)
    const target = `${url}?n=poor`
    const refused = await present(target, await poor.sign(target))
    t.match(refused, { status: 402, body: { error: { code: 'invalid_payment', reason: /^[a-z0-9_]+$/ } } })
    t.equal(callsTo(target), 0)
  })

  t.test(`while the facilitator is away nothing is charged on ${chain.name}`, async (t) => {
    const buyer = await newBuyer(chains, chain)
    const target = `${url}?n=away`
    const payment = await buyer.sign(target)
    facilitator.be('away')
    const refused = await present(target, payment)
    t.match(refused, { status: 503, body: { error: { code: 'settlement_unavailable' } } })
    facilitator.be('well')
    t.equal(callsTo(target), 0)
    t.equal((await present(target, payment)).status, 200, 'the same payment is good afterwards')
  })
}

t.test('the books agree with the chains', async (t) => {
  t.match(await purchases.ledgerCheck(), { purchases: 6, unresolvedPayments: 0, refundDue: 0 })
  t.strictSame(
    (await product.doctor()).filter((finding) => !finding.ok),
    [],
  )
})

for (const workers of [1, 2]) {
  t.test(`a facilitator that appears after the start is paid through, workers: ${workers}`, async (t) => {
    const config = await writeConfig(t, chains, { evm: remote, solana: remote })
    const port = Number(new URL(config.url).port)
    config.rewrite({ gateway: { port, workers }, admin: { port: 0 }, log: { level: 'info', format: 'json' } })
    facilitator.be('away')
    const gateway = await startGateway(t, config, chains.env)
    const { admin } = JSON.parse(gateway.stderr().match(/.*tollgate is running.*/)![0])
    t.equal((await fetch(`${admin}/readyz`)).status, 503)
    const store = await openStore(config, chains.env, newSellerWallets(chains))
    const url = await store.addLink({ url: `${api.url}/late`, slug: 'late', price: '0.01' })
    facilitator.be('well')
    await eventually(async () => (await fetch(`${admin}/readyz`)).status === 200 || undefined)
    for (const chain of chains.both) {
      const buyer = await newBuyer(chains, chain)
      const target = `${url}?n=late-${workers}-${chain.name}`
      const payment = await buyer.sign(target)
      // Each process offers it when it has asked the facilitator itself.
      const bought = await eventually(async () => {
        const response = await present(target, payment)
        return response.body.error?.code === 'settlement_unavailable' ? undefined : response
      })
      t.equal(bought.status, 200, bought.text)
      t.equal(callsTo(target), 1, 'and the seller never works for nothing')
    }
    gateway.signal('SIGTERM')
    t.equal((await gateway.exited).code, 0)
  })
}
