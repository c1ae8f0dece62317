import t from 'tap'
import { checkedLedger } from '../helpers/checkedLedger.ts'
import { newBuyer, read } from './helpers/buyers.ts'
import { startProduct } from './helpers/product.ts'
import { openSession, paySessionWith, readSession, signSession } from './helpers/sessions.ts'

const product = await startProduct(t)
const { chains, payTo, store, url, tollgate } = product
const open = (body: object = { amount: '0.75', title: 'A chair' }) => openSession(url, store.apiKey, body)

for (const chain of chains.both) {
  t.test(`@x402/fetch pays a session on ${chain.name}, and the chain shows it`, async (t) => {
    const session = await open()
    const buyer = await newBuyer(chains, chain)
    const before = await chain.balance(payTo(chain))
    const bought = await read(await buyer.fetchV2(session.payUrl, { method: 'POST' }))
    t.equal(bought.status, 200, bought.text)
    t.match(bought.body.data, {
      ...{ id: session.id, status: 'confirmed', amount: '0.750000000000000000', buyerWallet: buyer.address },
      ...{ chain: chain.name === 'evm' ? 'base' : 'solana', txHash: bought.receipt!.transaction },
    })
    t.match(bought.receipt, { success: true, payer: buyer.address, amount: '750000' })
    t.equal((await chain.balance(payTo(chain))) - before, 750_000n)
    t.ok((await chain.transfersTo(payTo(chain))).includes(bought.receipt!.transaction))
    t.strictSame(await readSession(session), bought.body.data)
  })

  t.test(
    `two wallets pay one session on ${chain.name} at once, over a slow node: one is charged`,
    async (t) => {
      const { rpc } = chain
      const lift = rpc.add('*', { kind: 'delay', ms: 100 })
      t.teardown(lift)
      const session = await open()
      const buyers = await Promise.all([1, 2, 3].map(() => newBuyer(chains, chain)))
      const had = await Promise.all(buyers.map(({ address }) => chain.balance(address)))
      const payments = await Promise.all(buyers.map((buyer) => signSession(session, buyer)))
      const responses = await Promise.all(payments.map((payment) => paySessionWith(session, payment)))
      t.strictSame(
        responses.map(({ status }) => status).toSorted(),
        [200, 409, 409],
        responses.map((a) => a.text).join(),
      )
      const has = await Promise.all(buyers.map(({ address }) => chain.balance(address)))
      for (const [i, { status }] of responses.entries())
        t.equal(had[i]! - has[i]!, status === 200 ? 750_000n : 0n)
      const next = await open()
      const loser = responses.findIndex(({ status }) => status === 409)
      t.equal(
        (await paySessionWith(next, payments[loser]!)).status,
        200,
        'whoever was not charged may still use it',
      )
    },
  )
}

t.test('the books agree with the chains, and doctor finds nothing', async (t) => {
  const ledger = await checkedLedger(tollgate.stack.store.purchases)
  t.match(ledger, { unresolvedPayments: 0, broken: { length: 0 }, unbalanced: { length: 0 }, purchases: 6 })
  const transfers = await Promise.all(chains.both.map((chain) => chain.transfersTo(payTo(chain))))
  t.strictSame(transfers.flat().toSorted(), ledger.transactions.map((one) => one.transaction).toSorted())
  t.strictSame(
    (await product.doctor()).filter(({ ok }) => !ok),
    [],
  )
})
