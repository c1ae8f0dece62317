import t from 'tap'
import { type Answer, answerWell, responseStatus } from './helpers/api.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t)
const { chains, api, payTo, tollgate } = product

const silent: Answer = () => {}
const cut: Answer = (_request, response) => {
  response.writeHead(200, { 'content-length': '1000' }).write('half of', () => response.destroy())
}
const failures: readonly [string, Answer, number, string][] = [
  ['500', responseStatus(500), 502, 'upstream_error'],
  ['503', responseStatus(503), 502, 'upstream_error'],
  ['a cut connection', cut, 502, 'upstream_error'],
  ['silence', silent, 504, 'upstream_timeout'],
]

for (const chain of chains.both) {
  const url = await product.addLink(`fails-${chain.name}`)
  const buyer = await newBuyer(chains, chain)

  t.test(`a seller that fails costs the buyer nothing on ${chain.name}`, async (t) => {
    const before = [await chain.balance(buyer.address), await chain.balance(payTo(chain))]
    // At once: one of them has to wait for the timeout. The same payment, one failure after the other, is below.
    for (const [name, respond, status, code] of failures) {
      const target = `${url}?n=${encodeURIComponent(name)}`
      const payment = await buyer.sign(target)
      api.answerWith(respond)
      const failed = await present(target, payment)
      t.match(failed, { status, body: { error: { code } } }, name)
      t.equal(failed.receipt, undefined)
      t.strictSame([await chain.balance(buyer.address), await chain.balance(payTo(chain))], before, name)

      api.answerWith(answerWell)
      const bought = await present(target, payment)
      t.equal(bought.status, 200, `${name}: the same payment then buys the call`)
      before[0]! -= 10_000n
      before[1]! += 10_000n
      t.strictSame([await chain.balance(buyer.address), await chain.balance(payTo(chain))], before, name)
    }
    t.equal(chain.rpc.forwarded(chain.methods.broadcast), failures.length, 'one broadcast a purchase')
  })

  t.test(
    `what the seller refuses reaches the buyer as it is and costs nothing on ${chain.name}`,
    async (t) => {
      const payment = await buyer.sign(`${url}?n=refused`)
      const before = await chain.balance(buyer.address)
      api.answerWith(responseStatus(404))
      t.match(await present(`${url}?n=refused`, payment), { status: 404, text: '{"error":"broken"}' })
      t.equal(await chain.balance(buyer.address), before)
      api.answerWith(answerWell)
      const moved = await present(`${url}?n=another`, payment)
      t.equal(moved.status, 200, 'the payment buys another call then')
    },
  )
}

t.test('the books show the purchases and nothing of the failures', async (t) => {
  const ledger = await tollgate.stack.store.purchases.ledgerCheck()
  const transfers = await Promise.all(chains.both.map((chain) => chain.transfersTo(payTo(chain))))
  t.match(ledger, {
    purchases: 10,
    unresolvedPayments: 0,
    refundDue: 0,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
  t.equal(transfers.flat().length, 10)
})
