import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { answerWell, responseStatus } from './helpers/api.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { type Chain, startChains } from './helpers/chains.ts'
import { runTollgate } from './helpers/child.ts'
import { eventually } from './helpers/eventually.ts'
import { startReferenceFacilitator } from './helpers/facilitator.ts'
import { type Product, startProduct } from './helpers/product.ts'
import { sendBack } from './helpers/sendBack.ts'

const price = 10_000n
const chains = await startChains(t)
const product = await startProduct(t, {}, chains)
const { api, payTo, wallets, tollgate } = product
const { purchases } = tollgate.stack.store
// A seller has other money as well; nothing here fails for want of it.
await chains.evm.mintUsdc(wallets.base as `0x${string}`, 1_000_000n)
chains.solana.mintUsdc(wallets.solana, 1_000_000n)
const after = await product.addLink('after')
const before = await product.addLink('before', '0.01', { settle: 'before' })

interface Answer {
  readonly status: number
  readonly body: {
    readonly data?: { readonly status: string; readonly txHash: string }
    readonly error?: { readonly code: string; readonly message: string; readonly retryable: boolean }
  }
}

async function refund({ url, store }: Product, purchaseId: string, txHash: string): Promise<Answer> {
  const response = await fetch(`${url}/api/v1/purchases/${purchaseId}/refunds`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${store.apiKey}` },
    body: JSON.stringify({ txHash }),
  })
  return { status: response.status, body: (await response.json()) as Answer['body'] }
}

/** Asks until the chain has confirmed the transfer, as the answer tells a seller to. */
const refundWhenFinal = (purchaseId: string, txHash: string) =>
  eventually(async () => {
    const response = await refund(product, purchaseId, txHash)
    return response.body.error?.code === 'TRANSACTION_NOT_FINAL' ? undefined : response
  })

const reaches = (purchaseId: string, status: string) =>
  eventually(async () => ((await purchases.find(purchaseId))?.status === status ? true : undefined))

let calls = 0
/** A purchase of a new buyer, with the payment that made it. */
async function buy(chain: Chain) {
  const buyer = await newBuyer(chains, chain)
  const had = await chain.balance(buyer.address)
  const target = `${after}?n=${++calls}`
  const payment = await buyer.sign(target)
  const bought = await present(target, payment)
  if (bought.status !== 200) throw new Error(bought.text)
  const { purchaseId } = bought.body._svc!
  await reaches(purchaseId, 'delivered')
  return { buyer, had, target, payment, purchaseId, sale: bought.receipt!.transaction }
}

for (const chain of chains.both) {
  const give = (to: string, amountAtomic = price) => sendBack(chains, chain, wallets, to, amountAtomic)

  t.test(`what a seller gives back on ${chain.name} is verified there and booked`, async (t) => {
    const { buyer, had, target, payment, purchaseId } = await buy(chain)
    const back = await give(buyer.address)
    const response = await refundWhenFinal(purchaseId, back)
    t.match(response, { status: 200, body: { data: { status: 'refunded' } } })
    t.equal(await chain.balance(buyer.address), had, 'the buyer has the money again')
    const sum = new Map<string, bigint>()
    for (const { account, amountAtomic } of await purchases.ledger(purchaseId)) {
      sum.set(account, (sum.get(account) ?? 0n) + amountAtomic)
    }
    t.ok(sum.size >= 4 && [...sum.values()].every((total) => total === 0n), 'nobody owes anybody anything')
    t.strictSame(await refund(product, purchaseId, back), response, 'asked again, the answer is the same')
    const worked = api.calls.length
    t.match(await present(target, payment), {
      status: 409,
      body: { error: { code: 'payment_already_used' } },
    })
    t.equal(api.calls.length, worked, 'the payment buys nothing any more')
  })

  t.test(`what a seller owes on ${chain.name} is paid back the same way`, async (t) => {
    const buyer = await newBuyer(chains, chain)
    const target = `${before}?n=${++calls}`
    api.answerWith(responseStatus(500))
    const failed = await present(target, await buyer.sign(target))
    api.answerWith(answerWell)
    t.ok(failed.status >= 500, failed.text)
    const purchaseId = failed.headers.get('x-purchase-id') ?? failed.body.purchaseId!
    await reaches(purchaseId, 'refund_due')
    t.match(await purchases.ledgerCheck(), { refundDue: 1 })
    t.equal((await refundWhenFinal(purchaseId, await give(buyer.address))).status, 200)
    t.match(await purchases.ledgerCheck(), { refundDue: 0, broken: { length: 0 }, unbalanced: { length: 0 } })
  })

  t.test(`what is no refund on ${chain.name} is refused, and the purchase stands`, async (t) => {
    const one = await buy(chain)
    const two = await buy(chain)
    const refused = async (transaction: string, message: RegExp, code = 'TRANSACTION_MISMATCH') => {
      const response = await refundWhenFinal(one.purchaseId, transaction)
      t.match(response, { status: 422, body: { error: { code, message } } })
      t.equal((await purchases.find(one.purchaseId))?.status, 'delivered')
    }
    await refused(one.sale, /moves none of it to that wallet/)
    await refused(two.sale, /moves none of it to that wallet/)
    await refused(await give(one.buyer.address, price - 1n), /moves less/)
    await refused(await give(two.buyer.address), /moves none of it to that wallet/)
    await refused(await give(one.buyer.address, 1_000_000_000n), /failed on chain/, 'TRANSACTION_FAILED')
    const lift = chain.rpc.add('*', { kind: 'refuse' })
    const away = await refund(product, one.purchaseId, await give(one.buyer.address))
    t.match(away, { status: 503, body: { error: { code: 'CHAIN_UNAVAILABLE', retryable: true } } })
    lift()
    const elsewhere = chains.both.find((other) => other !== chain)!
    const foreign = await sendBack(chains, elsewhere, wallets, payTo(elsewhere), 0n)
    t.match(await refund(product, one.purchaseId, foreign), {
      ...{ status: 400, body: { error: { code: 'VALIDATION_ERROR' } } },
    })
  })

  t.test(`one transfer on ${chain.name} refunds one purchase, however many ask at once`, async (t) => {
    const buyer = await newBuyer(chains, chain)
    const bought: string[] = []
    for (let i = 0; i < 3; i++) {
      const target = `${after}?n=${++calls}`
      const { body } = await present(target, await buyer.sign(target))
      bought.push(body._svc!.purchaseId)
      await reaches(bought.at(-1)!, 'delivered')
    }
    const back = await give(buyer.address)
    const asked = Array.from({ length: 4 }, () => bought).flat()
    const responses = await Promise.all(asked.map((id) => refundWhenFinal(id, back)))
    const refunded = new Set(asked.filter((_, i) => responses[i]!.status === 200))
    t.equal(refunded.size, 1, 'all that were answered well are of one purchase')
    for (const [i, response] of responses.entries()) {
      if (refunded.has(asked[i]!)) t.equal(response.status, 200)
      else t.match(response, { status: 409, body: { error: { code: 'TRANSACTION_ALREADY_USED' } } })
    }
    // Two more transfers, for one of the others: one of them pays it back.
    const rest = bought.find((id) => !refunded.has(id))!
    const more = [await give(buyer.address), await give(buyer.address, price + 1n)]
    const rivals = await Promise.all(more.map((transaction) => refundWhenFinal(rest, transaction)))
    t.strictSame(rivals.map(({ status }) => status).toSorted(), [200, 409])
    t.equal(rivals.find(({ status }) => status === 409)?.body.error?.code, 'CONFLICT')
  })
}

t.test('tollgate refund tells the gateway, and says what it answered', async (t) => {
  const [evm] = chains.both
  const { buyer, purchaseId } = await buy(evm)
  const run = async (transaction: string, env: Record<string, string>) => {
    const args = ['refund', purchaseId, transaction, '--gateway', product.url]
    return runTollgate(t, args, env).exited
  }
  const key = { TOLLGATE_API_KEY: product.store.apiKey }
  const unknown = `0x${'ab'.repeat(32)}`
  t.match(await run(unknown, {}), { code: 2, stderr: /TOLLGATE_API_KEY/ })
  t.match(await run(unknown, key), { code: 1, stderr: /TRANSACTION_NOT_FINAL/ })
  const done = await run(await sendBack(chains, evm, wallets, buyer.address, price), key)
  t.equal(done.code, 0, done.stderr)
  t.match(JSON.parse(done.stdout), { id: purchaseId, status: 'refunded', amount: '0.01' })
})

t.test('after all that the books agree with the chains', async (t) => {
  t.match(await purchases.ledgerCheck(), {
    unresolvedPayments: 0,
    refundDue: 0,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
  const findings = await product.doctor()
  t.strictSame(
    findings.filter((finding) => !finding.ok),
    [],
  )
  t.match(
    findings.find(({ subject }) => subject === 'refunds'),
    { message: '9 refunds are on chain' },
  )
})

t.test(
  'a refund that a reorganisation took away is told to its seller once, and doctor sees it',
  async (t) => {
    const [evm] = chains.both
    const { ledger } = tollgate.stack.store
    const { buyer, had, purchaseId, sale } = await buy(evm)
    const notified: unknown[] = []
    const server = createServer(async (request, response) => {
      notified.push(await json(request))
      response.end()
    })
    t.teardown(() => server.close())
    await new Promise<void>((listens) => server.listen(0, '127.0.0.1', listens))
    const hookUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    const made = await fetch(`${product.url}/api/v1/webhooks`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${product.store.apiKey}` },
      body: JSON.stringify({ url: hookUrl, events: ['refund.due', 'refund.recorded'] }),
    })
    t.equal(made.status, 201, await made.text())
    const back = await sendBack(chains, evm, wallets, buyer.address, price)
    const first = await chains.evm.rpc<Record<string, unknown>>('eth_getTransactionByHash', back)
    t.equal((await refundWhenFinal(purchaseId, back)).status, 200)
    const find = async () => (await ledger.find((await purchases.find(purchaseId))!.paymentKey))!
    /** Makes the row due; the product's own recovery looks the refund up. */
    async function pollRefund(): Promise<void> {
      const { row, state, tries } = await find()
      await ledger.putOff([{ row, state, afterMs: 0, tries }])
    }
    const faults = async () => (await product.doctor()).filter(({ ok }) => !ok)

    await chains.evm.reorg(1)
    t.equal(await evm.balance(buyer.address), had - price, 'the buyer does not have the money')
    t.strictSame(await faults(), [], 'a node that has not come past the refund says nothing of it')
    await sleep(1_100)
    await chains.evm.mine(1)
    const subject = 'refunds'
    const message = `the refund ${back} of purchase ${purchaseId} is not on ${evm.network}`
    t.match(await faults(), [{ subject, message }])
    await eventually(async () => {
      await pollRefund()
      return notified.length > 1 ? true : undefined
    }, 60_000)
    t.match(notified, [
      { event: 'refund.recorded', purchaseId, data: { refund: { txHash: back } } },
      { event: 'refund.due', purchaseId, txHash: sale, data: { reason: 'refund_left_chain' } },
    ])
    t.match(await faults(), [{ subject, message: `${message}, and the seller was told to pay it again` }])
    t.match(await find(), { state: 'refund_due', errorReason: 'refund_left_chain' })
    t.match(await purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
    t.match(await purchases.lostRefundsOf(purchaseId), [{ transaction: back }])

    // One more unit: the same transfer with the same nonce might be the same transaction.
    const other = await sendBack(chains, evm, wallets, buyer.address, price + 1n)
    t.match(await refundWhenFinal(purchaseId, other), { status: 200, body: { data: { status: 'refunded' } } })
    t.equal(await evm.balance(buyer.address), had + 1n, 'the buyer has the money, once')
    const third = await sendBack(chains, evm, wallets, buyer.address, price)
    t.match(await refund(product, purchaseId, third), { status: 409, body: { error: { code: 'CONFLICT' } } })
    t.match(await purchases.refundOf(purchaseId), { transaction: other })
    t.match(await purchases.lostRefundsOf(purchaseId), [{ transaction: back }], 'the first one is kept')
    t.match(await purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
    t.strictSame(await faults(), [])
    await eventually(async () => (notified.length > 2 ? true : undefined), 30_000)
    t.match(notified, { length: 3 })
    t.match(notified[2], { event: 'refund.recorded', data: { refund: { txHash: other } } })

    const { from, to, input, gas, nonce, maxFeePerGas, maxPriorityFeePerGas, accessList, type } = first
    await chains.evm.rpc('anvil_setNonce', from, nonce)
    const replay = { from, to, input, gas, nonce, maxFeePerGas, maxPriorityFeePerGas, accessList, type }
    t.equal(await chains.evm.rpc('eth_sendTransaction', replay), back, 'the first one lands after all')
    await chains.evm.mine(5)
    t.equal(
      await evm.balance(buyer.address),
      had + 2n * price + 1n,
      'the replacement, another transfer, and the first one',
    )
    await eventually(async () => {
      await pollRefund()
      return notified.length > 3 ? true : undefined
    }, 60_000)
    t.match(notified[3], {
      ...{ event: 'refund.recorded', purchaseId },
      data: { reason: 'refunded_twice', refund: { txHash: other } },
    })
    t.match(await find(), { state: 'refunded', errorReason: 'refunded_twice' })
    t.match(await purchases.refundOf(purchaseId), { transaction: other }, 'it counts once')
    t.match(await purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
    const isBack = `the refund ${back} of purchase ${purchaseId} was dropped from ${evm.network} and is back`
    t.match(await faults(), [
      { subject, message: `${isBack}; ${other} replaced it, so the buyer was paid twice` },
    ])
  },
)

// Last: the facilitator settles with the key whose transactions the product above counts.
t.test('with a rented facilitator a refund needs a node, and says so', async (t) => {
  const facilitator = await startReferenceFacilitator(t, chains)
  const remote = { facilitator: { url: facilitator.url } }
  const rented = await startProduct(t, { evm: { ...remote, rpcUrls: [] }, solana: remote }, chains)
  const url = await rented.addLink('rented')
  for (const chain of chains.both) {
    const buyer = await newBuyer(chains, chain)
    const bought = await present(`${url}?n=${chain.name}`, await buyer.sign(`${url}?n=${chain.name}`))
    t.equal(bought.status, 200, bought.text)
    const { purchaseId } = bought.body._svc!
    const back = await sendBack(chains, chain, rented.wallets, buyer.address, price)
    const response = await eventually(async () => {
      const now = await refund(rented, purchaseId, back)
      return now.body.error?.code === 'TRANSACTION_NOT_FINAL' ? undefined : now
    })
    if (chain.name === 'solana') t.match(response, { status: 200, body: { data: { status: 'refunded' } } })
    else {
      const message = /Base Sepolia .* set rpcUrls/
      t.match(response, { status: 503, body: { error: { code: 'CHAIN_NOT_CONFIGURED', message } } })
    }
  }
})
