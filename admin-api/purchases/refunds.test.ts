import t, { type Test } from 'tap'
import { entriesOfRefund, entriesOfSale } from '../../core/domain/ledger.ts'
import { leaveChain } from '../../core/payments/reconciliation.ts'
import { deliver, owe } from '../../core/payments/rules.ts'
import type { RefundVerdict, TransferBack } from '../../core/ports/chains/refundProofs.ts'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

const hash = (digit: string) => `0x${digit.repeat(64)}`
const proved: RefundVerdict = { status: 'proved', paymentKeys: [] }

/** A store that sells, and a chain whose responses the test sets. */
async function shop(t: Test) {
  const requests: TransferBack[] = []
  const chain = { verdict: proved as RefundVerdict | ((transfer: TransferBack) => Promise<RefundVerdict>) }
  const f = await startAdmin(t, {
    refundProofs: {
      async prove(transfer) {
        requests.push(transfer)
        return typeof chain.verdict === 'function' ? chain.verdict(transfer) : chain.verdict
      },
    },
  })
  const store = await f.store()
  const url = await f.seller()
  const { id: linkId } = (
    await f.call('POST', '/api/v1/links', { key: store.key, body: { url, title: 'One' } })
  ).body.data
  return {
    f,
    ...store,
    chain,
    requests,
    sale: (amount = '0.1') => sell(f.db, { storeId: store.id, linkId, amount, atMs: f.clock.nowMs }),
    refund: (id: string, txHash: unknown, key = store.key) =>
      f.call('POST', `/api/v1/purchases/${id}/refunds`, { key, body: { txHash } }),
    read: async (id: string) =>
      (await f.call('GET', `/api/v1/purchases/${id}`, { key: store.key })).body.data,
  }
}

t.test('a refund that the chain proves is booked, and the purchase is shown as refunded', async (t) => {
  const { f, requests, sale, refund, read } = await shop(t)
  const id = await sale()
  const before = await read(id)
  const { status, body } = await refund(id, hash('B'))
  t.equal(status, 200)
  t.strictSame(body, { success: true, data: { ...before, status: 'refunded' } })
  t.strictSame(await read(id), body.data)
  t.strictSame(requests, [
    {
      network: 'eip155:84532',
      asset: before.asset,
      from: '0x00000000000000000000000000000000000000a1',
      to: before.buyerWallet,
      amountAtomic: 100_000n,
      transaction: hash('b'),
      saleTransaction: before.txHash,
    },
  ])
  const purchase = (await f.db.purchases.find(id))!
  t.strictSame(await f.db.purchases.ledger(id), [...entriesOfSale(purchase), ...entriesOfRefund(purchase)])
  t.match(await f.db.purchases.ledgerCheck(), {
    refundDue: 0,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test('what was owed or delivered can be refunded as well; revenue shrinks by it', async (t) => {
  const { f, key, sale, refund } = await shop(t)
  for (const [digit, state] of Object.entries({ '1': 'delivered', '2': 'refund_due' } as const)) {
    const id = await sale()
    const { paymentKey } = (await f.db.purchases.find(id))!
    const payment = (await f.db.ledger.find(paymentKey))!
    t.ok(await f.db.ledger.apply(state === 'delivered' ? deliver(payment) : owe(payment, 'upstream_error')))
    t.match(await refund(id, hash(digit)), { status: 200, body: { data: { status: 'refunded' } } })
  }
  const stats = await f.call('GET', '/api/v1/stats', { key })
  t.match(stats.body.data, { buyers: 0, revenue: /^0\.0+$/ })
})

t.test('the same request again answers the same, without asking the chain', async (t) => {
  const { chain, requests, sale, refund } = await shop(t)
  const id = await sale()
  const first = await refund(id, hash('b'))
  chain.verdict = { status: 'not_found' }
  const again = await refund(id, hash('B'))
  t.strictSame([again.status, again.body], [200, first.body])
  t.equal(requests.length, 1)
  t.match(await refund(id, hash('c')), { status: 409, body: { error: { code: 'CONFLICT' } } })
})

t.test('many requests at once are one refund', async (t) => {
  const { f, sale, refund } = await shop(t)
  const id = await sale()
  const same = await Promise.all(Array.from({ length: 10 }, () => refund(id, hash('b'))))
  t.ok(same.every(({ status, body }) => status === 200 && body.data.status === 'refunded'))
  t.equal((await f.db.purchases.ledger(id)).length, 8)

  const sold = await Promise.all(Array.from({ length: 5 }, () => sale()))
  const responses = await Promise.all(sold.map((one) => refund(one, hash('c'))))
  t.equal(responses.filter(({ status }) => status === 200).length, 1)
  t.equal(responses.filter(({ body }) => body.error?.code === 'TRANSACTION_ALREADY_USED').length, 4)

  const other = await sale()
  const rivals = await Promise.all(['d', 'e', 'f'].map((digit) => refund(other, hash(digit))))
  t.equal(rivals.filter(({ status }) => status === 200).length, 1)
  t.equal(rivals.filter(({ body }) => body.error?.code === 'CONFLICT').length, 2)
  t.match(await f.db.purchases.ledgerCheck(), {
    purchases: 7,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test('a transaction that pays for a purchase is no refund of any', async (t) => {
  const { f, chain, sale, refund, read } = await shop(t)
  const [id, other] = [await sale(), await sale()]
  for (const one of [id, other]) {
    const { txHash } = await read(one)
    const { status, body } = await refund(id, txHash)
    t.match({ status, body }, { status: 409, body: { error: { code: 'TRANSACTION_ALREADY_USED' } } })
  }
  const { paymentKey } = (await f.db.purchases.find(other))!
  chain.verdict = { status: 'proved', paymentKeys: [paymentKey] }
  t.match(await refund(id, hash('b')), { body: { error: { code: 'TRANSACTION_ALREADY_USED' } } })
  t.equal((await read(id)).status, 'settled')
})

t.test('what the chain does not prove changes nothing, and the answer says why', async (t) => {
  const { chain, sale, refund, read } = await shop(t)
  const id = await sale()
  const before = await read(id)
  const cases: [RefundVerdict, number, string, RegExp, boolean][] = [
    [{ status: 'not_found' }, 409, 'TRANSACTION_NOT_FINAL', /was not found on Base Sepolia/, true],
    [{ status: 'not_final' }, 409, 'TRANSACTION_NOT_FINAL', /confirmations/, true],
    [{ status: 'reverted' }, 422, 'TRANSACTION_FAILED', /failed on chain/, false],
    ...(['asset', 'recipient', 'sender', 'amount', 'order'] as const).map(
      (what): [RefundVerdict, number, string, RegExp, boolean] => [
        { status: 'mismatch', what },
        422,
        'TRANSACTION_MISMATCH',
        /Expected at least 0\.10 USDC \(0x036C\w+\) from 0x0+a1 to 0x0+b1, after the sale, but this transaction \w+/,
        false,
      ],
    ),
    [{ status: 'unavailable', message: 'No node answers.' }, 503, 'CHAIN_UNAVAILABLE', /No node/, true],
    [{ status: 'not_configured' }, 503, 'CHAIN_NOT_CONFIGURED', /Base Sepolia cannot be verified/, false],
  ]
  for (const [verdict, status, code, message, retryable] of cases) {
    chain.verdict = verdict
    const response = await refund(id, hash('b'))
    t.equal(response.status, status, JSON.stringify(verdict))
    t.match(response.body.error, { code, message, retryable })
    t.equal(response.headers['retry-after'] !== undefined, retryable)
  }
  t.strictSame(await read(id), before)
  chain.verdict = proved
  t.equal((await refund(id, hash('b'))).status, 200, 'and the same hash is still good')
})

t.test('a purchase whose transfer left the chain meanwhile is not refunded', async (t) => {
  const { f, chain, sale, refund, read } = await shop(t)
  const id = await sale()
  const purchase = (await f.db.purchases.find(id))!
  chain.verdict = async () => {
    const payment = (await f.db.ledger.find(purchase.paymentKey))!
    await f.db.ledger.apply(leaveChain(payment, purchase))
    return proved
  }
  const conflict = { status: 409, body: { error: { code: 'CONFLICT', message: /left the chain/ } } }
  t.match(await refund(id, hash('b')), conflict)
  t.match(await refund(id, hash('b')), conflict)
  t.equal((await read(id)).status, 'reorged')
  t.match(await f.db.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test(
  'another store’s purchase, an unknown one and a bad body are refused before the chain is asked',
  async (t) => {
    const { f, requests, sale, refund } = await shop(t)
    const id = await sale()
    const other = await f.store()
    const none = { status: 404, body: { error: { code: 'NOT_FOUND' } } }
    t.match(await refund(id, hash('b'), other.key), none)
    t.match(await refund('00000000-0000-4000-8000-000000000000', hash('b')), none)
    t.match(await refund('x', hash('b')), none)
    const anonymous = await f.call('POST', `/api/v1/purchases/${id}/refunds`, { body: { txHash: hash('b') } })
    t.equal(anonymous.status, 401)
    const signature = '5'.repeat(88)
    for (const txHash of [
      undefined,
      null,
      7,
      '',
      'x',
      '0x',
      hash('g'),
      `${hash('b')}b`,
      signature,
      'x'.repeat(500),
    ]) {
      const response = await refund(id, txHash)
      t.equal(response.status, 400, String(txHash))
      t.match(response.body.error, { code: 'VALIDATION_ERROR', details: [{ path: 'txHash' }] })
    }
    const { key } = await f.store()
    const unknown = await f.call('POST', `/api/v1/purchases/${id}/refunds`, {
      key,
      body: { txHash: hash('b'), amount: '1' },
    })
    t.match(unknown.body.error, { code: 'VALIDATION_ERROR', details: [{ path: 'amount' }] })
    t.equal((await f.call('GET', `/api/v1/purchases/${id}/refunds`, { key })).status, 405)
    t.strictSame(requests, [])
  },
)
