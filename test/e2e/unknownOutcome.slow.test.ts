import t, { type Test } from 'tap'
import { type Buyer, newBuyer, present } from './helpers/buyers.ts'
import { type Chain, startChains } from './helpers/chains.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

const chains = await startChains(t)
const short = { settleTimeoutMs: 700 }
const product = await startProduct(t, { evm: short, solana: short }, chains)
const { api, payTo, tollgate } = product

const callsOf = (url: string) => api.calls.filter((target) => url.endsWith(target)).length

/** Everything that has to hold of one payment, however its settlement was disturbed. */
async function holdsForOnePayment(
  t: Test,
  chain: Chain,
  buyer: Buyer,
  url: string,
  disturb: () => unknown,
  mend: () => unknown,
): Promise<void> {
  const payment = await buyer.sign(url)
  const had = await chain.balance(buyer.address)
  const before = (await chain.transfersTo(payTo(chain))).length
  await disturb()
  const first = await present(url, payment)
  t.match(first, { status: 503, body: { error: { code: 'settlement_pending' }, purchaseId: String } })
  t.ok(first.headers.get('retry-after'), 'the buyer hears when to come back')
  const second = await present(url, payment)
  t.equal(second.body.error?.code, 'settlement_pending', 'asked again meanwhile, it is still pending')
  t.equal(second.body.purchaseId, first.body.purchaseId)
  // The known facts of the transfer are in the body and in the headers, for clients that read only headers.
  const { transaction } = first.body
  t.match(first.receipt, { success: false, errorReason: 'settlement_pending', transaction: transaction! })
  t.equal(second.receipt?.transaction, transaction)
  await mend()

  const last = await eventually(async () => {
    const response = await present(url, payment)
    return response.status === 503 ? undefined : response
  })
  t.equal(last.status, 200, last.text)
  t.equal(last.body._svc?.purchaseId, first.body.purchaseId, 'the purchase that was named')
  const transfers = await chain.transfersTo(payTo(chain))
  t.equal(transfers.length - before, 1, 'one transfer')
  t.equal(last.receipt?.transaction, transfers.at(-1))
  t.equal(transaction, transfers.at(-1), 'which was named while nobody knew how it went')
  t.equal(had - (await chain.balance(buyer.address)), 10_000n, 'charged once')
  t.equal(callsOf(url), 1, 'the seller worked once')
  t.equal((await present(url, payment)).text, last.text, 'and the answer stays')
}

// Most of it is waiting: the chains at the same time.
t.jobs = 2
const onBoth = chains.both.map((chain) =>
  t.test(chain.name, { buffered: true }, async (t) => {
    const { rpc, methods } = chain
    const url = await product.addLink(`unknown-${chain.name}`)
    const buyer = await newBuyer(chains, chain)

    t.test(`a broadcast whose answer is lost is found on ${chain.name}, not made again`, async (t) => {
      await holdsForOnePayment(
        t,
        chain,
        buyer,
        `${url}?n=dropped`,
        () => {
          rpc.add(methods.broadcast, { kind: 'drop-answer' })
          rpc.add(methods.status, { kind: 'refuse' })
        },
        () => rpc.clear(),
      )
    })

    t.test(`a broadcast that never reached ${chain.name} is made again with the same bytes`, async (t) => {
      await holdsForOnePayment(
        t,
        chain,
        buyer,
        `${url}?n=lost`,
        () => rpc.add(methods.broadcast, { kind: 'refuse' }),
        () => rpc.clear(),
      )
    })

    t.test(`a transaction that ${chain.name} takes late is waited for`, async (t) => {
      await holdsForOnePayment(
        t,
        chain,
        buyer,
        `${url}?n=late`,
        () => chain.hold(),
        () => chain.release(),
      )
    })

    t.test(
      `while the nodes of ${chain.name} are away, nothing is charged and nobody is told to pay again`,
      async (t) => {
        const target = `${url}?n=away`
        const payment = await buyer.sign(target)
        const had = await chain.balance(buyer.address)
        rpc.add('*', { kind: 'http-status', status: 429, retryAfterSeconds: 1 })
        const refused = await present(target, payment)
        t.equal(refused.status, 503, refused.text)
        t.equal(refused.body.error?.code, 'settlement_unavailable')
        rpc.clear()
        t.equal(callsOf(target), 0)
        t.equal(await chain.balance(buyer.address), had)
        t.equal((await present(target, payment)).status, 200, 'the same payment is good afterwards')
      },
    )
  }),
)
await Promise.all(onBoth)

t.test('the books agree with the chains', async (t) => {
  t.strictSame(
    (await product.doctor()).filter((finding) => !finding.ok),
    [],
  )
  const ledger = await tollgate.stack.store.purchases.ledgerCheck()
  t.match(ledger, { purchases: 8, unresolvedPayments: 0, refundDue: 0 })
})
