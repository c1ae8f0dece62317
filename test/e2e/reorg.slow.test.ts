import t from 'tap'
import { newBuyer, present } from './helpers/buyers.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t)
const { chains, payTo, tollgate } = product
const { stack } = tollgate
const { purchases, ledger } = stack.store
const [chain] = chains.both

/** Makes a payment due; the product's own recovery then looks it up. */
async function pollRefund(id: string): Promise<void> {
  const { row, state } = (await ledger.find((await purchases.find(id))!.paymentKey))!
  await ledger.putOff([{ row, state, afterMs: 0, tries: 0 }])
}

const url = await product.addLink('reorg')
const buyer = await newBuyer(chains, chain)
const bookedFor = async (id: string) =>
  (await purchases.ledger(id))
    .filter(({ account }) => account.startsWith('seller:'))
    .reduce((sum, { amountAtomic }) => sum + amountAtomic, 0n)
const statusOf = async (id: string) => (await purchases.find(id))?.status

for (const depth of [1, 2, 3, 4, 5]) {
  t.test(
    `a transfer that a reorganisation of ${depth} blocks takes away is noticed and sent again`,
    async (t) => {
      const target = `${url}?n=${depth}`
      const payment = await buyer.sign(target)
      const before = await chain.balance(payTo(chain))
      const bought = await present(target, payment)
      t.equal(bought.status, 200, bought.text)
      const { purchaseId } = bought.body._svc!
      await eventually(async () => ((await statusOf(purchaseId)) === 'delivered' ? true : undefined))

      await chains.evm.mine(depth - 1)
      const lift = chain.rpc.add(chain.methods.broadcast, { kind: 'refuse' })
      await chains.evm.reorg(depth)
      // A node that is not past the block of the payment is not believed to lack it.
      await chains.evm.mine(1)
      t.equal(await chain.balance(payTo(chain)), before, 'the money is with the buyer again')
      t.match(
        (await product.doctor()).filter(({ ok }) => !ok),
        [{ subject: 'transfers', message: purchaseId }],
        'doctor sees it at once',
      )
      // Only a node that is past the block where it was seen is asked for an absence.
      await chains.evm.mine(1)
      await pollRefund(purchaseId)
      await eventually(async () => ((await statusOf(purchaseId)) === 'reorged' ? true : undefined))
      const during = await purchases.ledgerCheck()
      t.match(
        during,
        { purchases: depth - 1, broken: { length: 0 }, unbalanced: { length: 0 } },
        'it counts as no purchase',
      )
      t.equal(await bookedFor(purchaseId), 0n, 'and is out of the books')
      const meanwhile = await present(target, payment)
      t.match(meanwhile, { status: 503, body: { error: { code: 'settlement_pending' }, purchaseId } })

      lift()
      await eventually(async () => {
        await pollRefund(purchaseId)
        return (await statusOf(purchaseId)) === 'delivered' ? true : undefined
      })
      t.equal((await chain.balance(payTo(chain))) - before, 10_000n, 'paid again, once')
      t.equal(await bookedFor(purchaseId), 10_000n, 'and booked once')
      t.equal((await present(target, payment)).text, bought.text, 'the answer is still there')
    },
  )
}

t.test('after all that, sales are booked once, and the next payment settles', async (t) => {
  const target = `${url}?n=next`
  t.equal((await present(target, await buyer.sign(target))).status, 200)
  t.match(await purchases.ledgerCheck(), {
    purchases: 6,
    unresolvedPayments: 0,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
  t.equal((await chain.transfersTo(payTo(chain))).length, 6)
  t.equal(await chain.balance(payTo(chain)), 60_000n)
  const rows = await ledger.list({ states: ['delivered', 'settled'], limit: 10 })
  t.equal(rows.length, 6)
  t.strictSame(
    (await product.doctor()).filter((finding) => !finding.ok),
    [],
  )
})
