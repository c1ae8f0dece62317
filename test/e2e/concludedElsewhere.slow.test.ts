import t from 'tap'
import { readConfig } from '../../cli/runtime/readConfig.ts'
import { startTollgate } from '../../cli/runtime/startTollgate.ts'
import { silentLog as log } from '../../core/ports/log.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { startChains } from './helpers/chains.ts'
import { eventually } from './helpers/eventually.ts'
import { startReferenceFacilitator } from './helpers/facilitator.ts'
import { startProduct } from './helpers/product.ts'

// Two gateways on one database, and a facilitator. The first recovers payments for both.
const chains = await startChains(t)
const facilitator = await startReferenceFacilitator(t, chains)
const remote = { facilitator: { url: facilitator.url, maxInFlightPerPayer: 1 }, settleTimeoutMs: 1_500 }
const product = await startProduct(t, { evm: remote, solana: remote }, chains)
const { file } = await product.config.beside('second')
const second = await startTollgate(await readConfig(file, chains.env), { env: chains.env, log })
t.teardown(() => second.close())

for (const chain of chains.both) {
  t.test(`what the other gateway has found on ${chain.name} is in its payer’s way no more`, async (t) => {
    const url = await product.addLink(`elsewhere-${chain.name}`)
    const atSecond = url.replace(product.config.url, second.gatewayUrl)
    const buyer = await newBuyer(chains, chain)
    const [open, next] = [await buyer.sign(`${url}?n=open`), await buyer.sign(`${url}?n=next`)]
    facilitator.be('silent')
    t.match(await present(`${atSecond}?n=open`, open), {
      status: 503,
      body: { error: { code: 'settlement_pending' } },
    })
    facilitator.be('well')
    const answerTo = (n: string, payment: typeof open) =>
      eventually(async () => {
        const response = await present(`${atSecond}?n=${n}`, payment)
        return response.status === 503 ? undefined : response
      })
    t.match(await answerTo('open', open), { status: 200 })
    t.match(await answerTo('next', next), { status: 200 })
  })
}
