import t from 'tap'
import { encodeFunctionData, type Hex, multicall3Abi } from 'viem'
import { readAuthorization } from '../../adapters/chains/evm/check/authorization.ts'
import { payCall } from '../../adapters/chains/evm/check/transferCalls.ts'
import { multicall3 } from '../../adapters/chains/evm/settle/multicall.ts'
import { decodeHeader } from '../../core/x402/header.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

// An observer who sees buyers' authorisations, and lands them before we do, or after we could not.
const product = await startProduct(t)
const { api, chains, payTo, tollgate } = product
const { ledger, purchases } = tollgate.stack.store
const [chain] = chains.both
const [observer] = await chains.evm.rpc<[Hex]>('eth_accounts')

function transferOf(payment: string): Hex {
  const decoded = decodeHeader(payment) as unknown as { value: { payload: unknown } }
  const read = readAuthorization(decoded.value.payload)
  if (!read.ok) throw new Error(read.message)
  return payCall(chain.usdc, read.authorization, undefined).data as Hex
}

/** Lands all of them in one transaction. @returns its hash */
function landTogether(payments: readonly string[]): Promise<Hex> {
  const calls = payments.map((payment) => ({
    ...{ target: chain.usdc as Hex, allowFailure: false, callData: transferOf(payment) },
  }))
  const data = encodeFunctionData({ abi: multicall3Abi, functionName: 'aggregate3', args: [calls] })
  return chains.evm.send({ from: observer, to: multicall3, data })
}

t.test(
  'payments of several links that land in one transaction of somebody else are each booked and answered',
  async (t) => {
    const urls = await Promise.all([0, 1, 2, 3, 4].map((n) => product.addLink(`batched-${n}`)))
    const buyers = await Promise.all(urls.map(() => newBuyer(chains, chain)))
    const targets = urls.map((url) => `${url}?n=1`)
    const payments = await Promise.all(targets.map((target, n) => buyers[n]!.sign(target)))
    const landed = Promise.withResolvers<void>()
    let foreign: Hex | undefined
    // While the sellers work: what is on its way to us is on its way to others as well.
    api.onCall(() => {
      if (api.calls.length < targets.length) return
      void landTogether(payments).then((hash) => {
        foreign = hash
        landed.resolve()
      }, landed.reject)
    })
    api.answerWith(async (_request, response) => {
      await landed.promise
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}')
    })
    const responses = await Promise.all(targets.map((target, n) => present(target, payments[n]!)))
    for (const { status, text, receipt } of responses) {
      t.equal(status, 200, text)
      t.match(receipt, { success: true, transaction: foreign! })
    }
    t.equal(await chain.balance(payTo(chain)), 50_000n, 'each was paid once')
    const again = await Promise.all(targets.map((target, n) => present(target, payments[n]!)))
    t.same(
      again.map(({ text }) => text),
      responses.map(({ text }) => text),
      'and a repeat gets its own answer',
    )
    t.match(await purchases.ledgerCheck(), {
      purchases: 5,
      unresolvedPayments: 0,
      broken: { length: 0 },
      unbalanced: { length: 0 },
    })
  },
)

t.test(
  'mined and reverted, then landed by somebody else: charged once, and its buyer gets the answer',
  async (t) => {
    const target = `${await product.addLink('reverted')}?n=1`
    const buyer = await newBuyer(chains, chain)
    const payment = await buyer.sign(target)
    // After the chain was asked, while the seller works.
    api.answerWith(async (_request, response) => {
      await chains.evm.setBlacklisted(buyer.address as Hex, true)
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"worth":"it"}')
    })
    const first = await present(target, payment)
    t.match(first, { status: 503, body: { error: { code: 'settlement_pending' }, purchaseId: String } })
    t.match(first.receipt, { success: false, errorReason: 'invalid_exact_evm_transaction_failed' })
    const calls = api.calls.length
    t.match(await present(target, payment), { status: 503, body: { purchaseId: first.body.purchaseId! } })

    await chains.evm.setBlacklisted(buyer.address as Hex, false)
    const before = await chain.balance(payTo(chain))
    await chains.evm.send({ from: observer, to: chain.usdc as Hex, data: transferOf(payment) })
    const [open] = await ledger.list({ states: ['pending'], limit: 10 })
    await ledger.putOff([{ row: open!.row, state: 'pending', afterMs: 0, tries: 0 }])
    const last = await eventually(async () => {
      const response = await present(target, payment)
      return response.status === 503 ? undefined : response
    })
    t.match(last, { status: 200, body: { data: { worth: 'it' } } })
    t.equal(api.calls.length, calls, 'the seller worked once')
    t.equal((await chain.balance(payTo(chain))) - before, 10_000n)
  },
)

t.test('the books agree with the chains', async (t) => {
  t.strictSame(
    (await product.doctor()).filter((finding) => !finding.ok),
    [],
  )
  t.match(await purchases.ledgerCheck(), {
    purchases: 6,
    unresolvedPayments: 0,
    refundDue: 0,
    broken: { length: 0 },
  })
})
