import t from 'tap'
import { type Answer, answerWell, responseStatus } from './helpers/api.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

const short = { settleTimeoutMs: 1_500 }
const product = await startProduct(t, { evm: short, solana: short })
const { chains, api, payTo, tollgate } = product
const { purchases } = tollgate.stack.store

for (const chain of chains.both) {
  const url = await product.addLink(`first-${chain.name}`, '0.01', { settle: 'before' })
  const elsewhere = await product.addLink(`elsewhere-${chain.name}`)
  const buyer = await newBuyer(chains, chain)

  t.test(
    `a streamed answer begins on ${chain.name} when the buyer has paid and before the seller is done`,
    async (t) => {
      const started = Promise.withResolvers<Parameters<Answer>[1]>()
      api.answerWith((_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('data: 1\n\n')
        started.resolve(response)
      })
      const before = await chain.balance(payTo(chain))
      const response = await buyer.fetchV2(`${url}?n=stream`)
      t.equal(response.status, 200)
      t.equal((await chain.balance(payTo(chain))) - before, 10_000n, 'charged before the stream')
      const reader = response.body!.getReader()
      const first = await reader.read()
      t.equal(Buffer.from(first.value!).toString(), 'data: 1\n\n', 'the seller still has its answer open')
      const seller = await started.promise
      seller.end('data: 2\n\n')
      let rest = ''
      for (let part = await reader.read(); !part.done; part = await reader.read())
        rest += Buffer.from(part.value).toString()
      t.equal(rest, 'data: 2\n\n')
      const purchaseId = response.headers.get('x-purchase-id')!
      await eventually(async () =>
        (await purchases.find(purchaseId))?.status === 'delivered' ? true : undefined,
      )
      api.answerWith(answerWell)
    },
  )

  t.test(`a JSON answer is wrapped on the way on ${chain.name}, and stays for a repeated call`, async (t) => {
    const payment = await buyer.sign(`${url}?n=json`)
    const called = api.calls.length
    const first = await present(`${url}?n=json`, payment)
    t.match(first, { status: 200, body: { data: { target: String }, _svc: { purchaseId: String } } })
    const again = await eventually(async () => {
      const response = await present(`${url}?n=json`, payment)
      return response.status === 200 ? response : undefined
    })
    t.equal(again.text, first.text)
    t.equal(api.calls.length - called, 1)
  })

  t.test(
    `a seller that fails after the charge owes the buyer, and doctor says so (${chain.name})`,
    async (t) => {
      const owed = (await purchases.ledgerCheck()).refundDue
      const payment = await buyer.sign(`${url}?n=fails`)
      const before = await chain.balance(payTo(chain))
      api.answerWith(responseStatus(500))
      const failed = await present(`${url}?n=fails`, payment)
      api.answerWith(answerWell)
      t.match(failed, { status: 502, body: { error: { code: 'upstream_error', retryable: false } } })
      t.equal((await chain.balance(payTo(chain))) - before, 10_000n, 'the money is with the seller')
      t.match(failed.receipt, { success: true, transaction: (await chain.transfersTo(payTo(chain))).at(-1)! })
      const purchaseId = failed.headers.get('x-purchase-id')!
      // At once, before any process had to record that the seller owes it; as that call, as another one, and elsewhere.
      const { transaction } = failed.receipt!
      for (const target of [`${url}?n=fails`, `${url}?n=else`, `${elsewhere}?n=fails`]) {
        t.match(await present(target, payment), {
          status: 409,
          body: {
            error: { reason: 'charged_refund_owed', message: /owes you a refund/, retryable: false },
            ...{ purchaseId, transaction },
          },
          receipt: { success: false, errorReason: 'charged_refund_owed', transaction, payer: buyer.address },
        })
      }
      const ledger = await eventually(async () => {
        const now = await purchases.ledgerCheck()
        return now.refundDue > owed ? now : undefined
      })
      t.equal(ledger.refundDue, owed + 1)
      t.ok((await product.doctor()).some(({ message }) => message.includes(`${owed + 1} owed back`)))
      t.equal((await chain.balance(payTo(chain))) - before, 10_000n, 'it is not charged twice')
    },
  )

  t.test(`a seller that breaks off inside the answer owes the buyer too (${chain.name})`, async (t) => {
    const owed = (await purchases.ledgerCheck()).refundDue
    api.answerWith((_request, response) => {
      response.writeHead(200, { 'content-length': '1000' }).write('half of', () => response.destroy())
    })
    const payment = await buyer.sign(`${url}?n=breaks`)
    await t.rejects(present(`${url}?n=breaks`, payment), 'a cut answer does not look like a whole one')
    api.answerWith(answerWell)
    await eventually(async () => ((await purchases.ledgerCheck()).refundDue > owed ? true : undefined))
  })

  t.test(
    `a payment that lands when nobody waits any more is served when the buyer is back (${chain.name})`,
    async (t) => {
      const owed = (await purchases.ledgerCheck()).refundDue
      const target = `${url}?n=late-${chain.name}`
      const payment = await buyer.sign(target)
      const before = await chain.balance(payTo(chain))
      await chain.hold()
      t.match(await present(target, payment), {
        status: 503,
        body: { error: { code: 'settlement_pending' } },
      })
      await chain.release()
      await eventually(async () => ((await purchases.ledgerCheck()).refundDue > owed ? true : undefined))
      t.equal(
        api.calls.filter((call) => call.endsWith(`n=late-${chain.name}`)).length,
        0,
        'the seller was not asked yet',
      )
      t.match(await present(`${url}?n=other`, payment), {
        ...{ status: 409, body: { error: { code: 'payment_already_used' } } },
      })

      const responses = await Promise.all(Array.from({ length: 8 }, () => present(target, payment)))
      for (const response of responses)
        t.match(response, { status: 200, body: { _svc: { purchaseId: String } } })
      t.equal(new Set(responses.map(({ text }) => text)).size, 1, 'all of them the same answer')
      t.equal(
        api.calls.filter((call) => call.endsWith(`n=late-${chain.name}`)).length,
        1,
        'the seller worked once',
      )
      t.equal((await chain.balance(payTo(chain))) - before, 10_000n, 'charged once')
      t.equal(responses[0]!.receipt?.transaction, (await chain.transfersTo(payTo(chain))).at(-1))
      await eventually(async () =>
        (await purchases.find(responses[0]!.body._svc!.purchaseId))?.status === 'delivered'
          ? true
          : undefined,
      )
      t.equal((await purchases.ledgerCheck()).refundDue, owed, 'and nothing is owed')
    },
  )

  t.test(`a seller that fails the buyer who came back owes the money (${chain.name})`, async (t) => {
    const owed = (await purchases.ledgerCheck()).refundDue
    const target = `${url}?n=fails-late`
    const payment = await buyer.sign(target)
    await chain.hold()
    t.equal((await present(target, payment)).status, 503)
    await chain.release()
    await eventually(async () => ((await purchases.ledgerCheck()).refundDue > owed ? true : undefined))
    api.answerWith(responseStatus(500))
    t.match(await present(target, payment), { status: 502, body: { error: { code: 'upstream_error' } } })
    api.answerWith(answerWell)
    await eventually(async () => ((await purchases.ledgerCheck()).refundDue > owed ? true : undefined))
    t.equal((await present(target, payment)).status, 409, 'once')
  })

  t.test(`a payment that can not be settled never reaches the seller on ${chain.name}`, async (t) => {
    const poor = await newBuyer(chains, chain, 10_000n)
    const [all, more] = await Promise.all([poor.sign(`${url}?n=all`), poor.sign(`${url}?n=more`)])
    t.equal((await present(`${url}?n=all`, all)).status, 200)
    const called = api.calls.length
    const refused = await present(`${url}?n=more`, more)
    t.match(refused, { status: 402, body: { error: { code: 'invalid_payment', reason: /insufficient/ } } })
    t.equal(api.calls.length, called)
  })
}

t.test('the books agree with the chains', async (t) => {
  t.strictSame(
    (await product.doctor()).filter((finding) => !finding.ok),
    [],
  )
})
