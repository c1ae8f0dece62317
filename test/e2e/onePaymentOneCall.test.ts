import t from 'tap'
import { type Bought, newBuyer, present } from './helpers/buyers.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t)
const { chains, api, payTo, tollgate } = product
const store = tollgate.stack.store

for (const chain of chains.both) {
  const a = await product.addLink(`a-${chain.name}`)
  const b = await product.addLink(`b-${chain.name}`)
  const buyer = await newBuyer(chains, chain)
  const seen = async () => ({
    transfers: (await chain.transfersTo(payTo(chain))).length,
    purchases: (await store.purchases.ledgerCheck()).purchases,
    calls: api.calls.length,
    earned: await chain.balance(payTo(chain)),
  })
  /** What changed between two looks. */
  const since = async (before: Awaited<ReturnType<typeof seen>>) => {
    const now = await seen()
    return {
      transfers: now.transfers - before.transfers,
      purchases: now.purchases - before.purchases,
      calls: now.calls - before.calls,
      earned: now.earned - before.earned,
    }
  }
  const once = { transfers: 1, purchases: 1, calls: 1, earned: 10_000n }

  t.test(`eight uses of one payment at the same moment are one call on ${chain.name}`, async (t) => {
    const payment = await buyer.sign(`${a}?n=eight`)
    const before = await seen()
    const answers = await Promise.all(Array.from({ length: 8 }, () => present(`${a}?n=eight`, payment)))
    t.strictSame(await since(before), once)
    t.strictSame(
      answers.map((answer) => answer.status),
      Array(8).fill(200),
      'everybody who asked gets the one answer',
    )
    t.equal(new Set(answers.map((answer) => answer.text)).size, 1)
    t.equal(new Set(answers.map((answer) => answer.receipt?.transaction)).size, 1)
  })

  t.test(`twenty payments at the same moment are twenty calls on ${chain.name}`, async (t) => {
    const urls = Array.from({ length: 20 }, (_, i) => `${a}?n=twenty-${i}`)
    const payments = await Promise.all(urls.map((url) => buyer.sign(url)))
    const before = await seen()
    const answers = await Promise.all(urls.map((url, i) => present(url, payments[i]!)))
    t.strictSame(
      answers.map((answer) => answer.status),
      Array(20).fill(200),
    )
    t.strictSame(await since(before), { transfers: 20, purchases: 20, calls: 20, earned: 200_000n })
    const distinct = (of: (answer: Bought) => unknown) => new Set(answers.map(of)).size
    t.equal(
      distinct((answer) => answer.receipt?.transaction),
      20,
    )
    t.equal(
      distinct((answer) => answer.body._svc?.purchaseId),
      20,
    )
    t.ok(
      answers.every((answer, i) => answer.text.includes(`n=twenty-${i}"`)),
      'each got its own answer',
    )
  })

  t.test(`a payment that was used for one link is refused on another on ${chain.name}`, async (t) => {
    const payment = await buyer.sign(`${a}?n=used`)
    t.equal((await present(`${a}?n=used`, payment)).status, 200)
    const before = await seen()
    for (const url of [`${b}?n=used`, `${a}?n=other`, `${a}/below?n=used`]) {
      const refused = await present(url, payment)
      t.match(refused, { status: 409, body: { error: { code: 'payment_already_used' } } }, url)
    }
    const post = await fetch(`${a}?n=used`, {
      method: 'POST',
      body: '{}',
      headers: { 'payment-signature': payment },
    })
    t.equal(post.status, 409, 'another method is another call')
    t.strictSame(await since(before), { transfers: 0, purchases: 0, calls: 0, earned: 0n })
  })

  t.test(
    `a payment signed for one link buys one call of another at the same terms on ${chain.name}`,
    async (t) => {
      const payment = await buyer.sign(`${a}?n=moved`)
      const before = await seen()
      const first = await present(`${b}?n=moved`, payment)
      t.equal(first.status, 200, first.text)
      const refused = await present(`${a}?n=moved`, payment)
      t.match(refused, { status: 409, body: { error: { code: 'payment_already_used' } } })
      t.strictSame(await since(before), once)
    },
  )

  t.test(`the same call with the same payment gets its stored answer on ${chain.name}`, async (t) => {
    const payment = await buyer.sign(`${a}?n=again`)
    const before = await seen()
    const first = await present(`${a}?n=again`, payment)
    const second = await present(`${a}?n=again`, payment)
    t.equal(second.status, 200)
    t.equal(second.text, first.text)
    t.strictSame(second.receipt, first.receipt)
    t.strictSame(await since(before), once)
  })

  t.test(
    `a payment for less than the price of a dearer link is refused there on ${chain.name}`,
    async (t) => {
      const dear = await product.addLink(`dear-${chain.name}`, '0.02')
      const payment = await buyer.sign(`${a}?n=cheap`)
      const before = await seen()
      const refused = await present(`${dear}?n=cheap`, payment)
      t.match(refused, { status: 400, body: { error: { code: 'invalid_payment', reason: String } } })
      t.strictSame(await since(before), { transfers: 0, purchases: 0, calls: 0, earned: 0n })
      t.equal((await present(`${a}?n=cheap`, payment)).status, 200, 'and still buys what it was signed for')
    },
  )
}

t.test('the books agree with the chains', async (t) => {
  t.strictSame(
    (await product.doctor()).filter((finding) => !finding.ok),
    [],
  )
})
