import t from 'tap'
import { answerWell } from './helpers/api.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t)
const { chains, api, payTo, tollgate } = product
const { purchases } = tollgate.stack.store

/** A paid call whose buyer may go. */
function start(target: string, payment: string) {
  const abort = new AbortController()
  const headers = { 'payment-signature': payment }
  const call = fetch(target, { headers, signal: abort.signal }).then(
    () => 'answered',
    () => 'left',
  )
  return () => {
    abort.abort()
    return call
  }
}

for (const chain of chains.both) {
  const url = await product.addLink(`leaves-${chain.name}`)
  const buyer = await newBuyer(chains, chain)

  t.test(`a buyer that leaves while the seller works is not charged on ${chain.name}`, async (t) => {
    const target = `${url}?n=early`
    const payment = await buyer.sign(target)
    const had = await chain.balance(buyer.address)
    const gone = Promise.withResolvers<void>()
    api.answerWith((_request, response) => response.once('close', () => gone.resolve()))
    const called = new Promise<void>((resolve) => api.onCall(() => resolve()))
    const leave = start(target, payment)
    await called
    t.equal(await leave(), 'left')
    await gone.promise
    api.answerWith(answerWell)
    t.equal(await chain.balance(buyer.address), had)
    const later = await present(`${url}?n=early-again`, payment)
    t.equal(later.status, 200, 'the payment is free for another call')
  })

  t.test(
    `a buyer that leaves while the payment settles finds its answer later on ${chain.name}`,
    async (t) => {
      const target = `${url}?n=late`
      const payment = await buyer.sign(target)
      const before = (await chain.transfersTo(payTo(chain))).length
      const lift = chain.rpc.add(chain.methods.broadcast, { kind: 'hold' })
      chain.rpc.resetCounters()
      const leave = start(target, payment)
      await chain.rpc.whenCalled(chain.methods.broadcast)
      t.equal(await leave(), 'left')
      lift()
      const response = await eventually(async () => {
        const again = await present(target, payment)
        return again.status === 503 ? undefined : again
      })
      t.match(response, { status: 200, body: { data: { target: String } } })
      t.equal((await chain.transfersTo(payTo(chain))).length - before, 1)
      t.equal(api.calls.filter((one) => target.endsWith(one)).length, 1, 'the seller worked once')
    },
  )
}

t.test('the books agree with the chains', async (t) => {
  t.match(await purchases.ledgerCheck(), { purchases: 4, unresolvedPayments: 0, refundDue: 0 })
})
