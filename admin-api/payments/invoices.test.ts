import t from 'tap'
import { feesAccountOf } from '../../core/domain/ledger.ts'
import { webhookKinds } from '../../core/domain/webhook.ts'
import { leaveChain } from '../../core/payments/reconciliation.ts'
import { createRecovery } from '../../core/payments/recovery.ts'
import { silentLog } from '../../core/ports/log.ts'
import { feeShop, half, operator, refused, usdc } from '../../test/helpers/admin-api/feeShop.ts'
import { bring } from '../../test/helpers/rows.ts'
import { testAsset, testNetwork } from '../../test/helpers/settler.ts'

const MINUTE_MS = 60_000

t.test(
  'what is owed is an invoice to the wallet of the operator, and paying it settles the debt',
  async (t) => {
    const { f, sale, ask, owed, pay, key, id: storeId, username, invoices, balanced } = await feeShop(t)
    await f.db.webhooks.create(
      {
        id: 'e1',
        storeId,
        url: 'https://a.test',
        description: '',
        salt: 's',
        kinds: webhookKinds,
        createdAtMs: 0,
      },
      9,
    )
    await sale('20')
    await sale('1.50')
    const notified = (await f.db.webhooks.awaitingFanOut(99)).length
    t.match((await owed()).owed, [{ amount: '1.075', payable: true }])
    const { status, body } = await ask()
    t.equal(status, 201)
    const invoice = body.data
    t.match(invoice, {
      ...{ status: 'open', amount: '1.075', currency: 'USDC', chain: 'base', network: testNetwork },
      ...{ payTo: operator, processing: false, txHash: null, paidAt: null },
    })
    t.equal(Date.parse(invoice.expiresAt), f.clock.nowMs + 30 * MINUTE_MS)
    const page = await f.call(
      'GET',
      new URL(invoice.checkoutUrl).pathname + new URL(invoice.checkoutUrl).search,
    )
    t.equal(page.status, 200)
    t.match(page.text, new RegExp(`Pay 1.075 USDC.*${username}`, 's'))
    t.match(page.text, operator)
    const offer = await f.call('POST', `/api/v1/payments/${invoice.id}/pay`, { key })
    t.match(offer.body.accepts, [
      { network: testNetwork, asset: testAsset, amount: '1075000', payTo: operator },
    ])

    const paid = await pay(invoice, 'a', '1075000')
    t.match(paid, { status: 200, body: { data: { status: 'confirmed', merchant: { username: '' } } } })
    t.equal(paid.headers['x-review-token'], undefined, 'nothing was bought that could be reviewed')
    const { purchaseId, txHash } = paid.body.data
    const after = await owed()
    t.match(after.owed, [{ amount: '0.00', payable: false }])
    t.match(after.months, [{ sales: 2, fees: '1.075', paid: '1.075' }])
    t.match(await invoices(), [
      { id: invoice.id, status: 'confirmed', txHash, checkoutUrl: null, paidAt: String },
    ])
    t.strictSame(
      (await f.db.purchases.ledger(purchaseId)).map(({ account, amountAtomic }) => [account, amountAtomic]),
      [
        ['buyer:0x2222222222222222222222222222222222222222', -1_075_000n],
        [feesAccountOf(storeId), 1_075_000n],
      ],
    )
    t.match(
      await f.db.purchases.find(purchaseId),
      { feeAtomic: 0n, status: 'delivered' },
      'without a fee of its own',
    )
    t.match(await ask(), refused('FEES_NOT_PAYABLE', /No fees are owed/))

    const mine = async (path: string) => (await f.call('GET', path, { key })).body
    t.equal((await mine('/api/v1/purchases')).data.purchases.length, 2, 'it is no sale')
    t.strictSame((await mine('/api/v1/payments')).data.payments, [], 'nor a session of the store')
    t.equal((await mine(`/api/v1/purchases/${purchaseId}`)).success, false)
    t.equal(
      (await f.db.webhooks.awaitingFanOut(99)).length,
      notified,
      'nobody is told that something was sold',
    )
    await balanced()
  },
)

t.test('whoever asks at once, in as many tabs, gets one invoice, and it is paid once', async (t) => {
  const { sale, ask, pay, owed, settler, invoices, balanced } = await feeShop(t)
  await sale('20')
  const asked = await Promise.all(
    Array.from({ length: 6 }, () => ask({ network: testNetwork, asset: testAsset })),
  )
  t.strictSame(new Set(asked.map(({ status }) => status)), new Set([201]))
  t.equal(new Set(asked.map(({ body }) => body.data.checkoutUrl)).size, 1)
  t.equal((await invoices()).length, 1)
  const [{ body }] = asked as [(typeof asked)[0]]
  const paid = await Promise.all(['a', 'b'].map((nonce) => pay(body.data, nonce, '1000000')))
  t.strictSame(paid.map(({ status }) => status).toSorted(), [200, 409])
  t.equal(settler.transfers.length, 1)
  t.match((await owed()).owed, [{ amount: '0.00' }])
  await balanced()
})

t.test('an invoice that says something else than is owed makes way for a new one', async (t) => {
  const { f, sale, ask, pay, invoices } = await feeShop(t)
  await sale('20')
  const one = (await ask()).body.data
  t.equal((await ask()).body.data.id, one.id)
  await sale('2')
  const two = (await ask()).body.data
  t.match(two, { amount: '1.10', status: 'open' })
  t.match(
    (await invoices()).map(({ id, status }: { id: string; status: string }) => ({ id, status })),
    [
      { id: two.id, status: 'open' },
      { id: one.id, status: 'canceled' },
    ],
  )
  t.equal((await pay(one, 'a', '1000000')).status, 409)
  f.clock.nowMs += 31 * MINUTE_MS
  t.not((await ask()).body.data.id, two.id, 'and so does one whose time is over')
})

t.test('while a payment for it is under way, the invoice stays, whatever is owed by then', async (t) => {
  const { sale, ask, pay, settler, owed } = await feeShop(t)
  await sale('20')
  const invoice = (await ask()).body.data
  const [gate, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  settler.settleWith = async () => {
    begun.resolve()
    await gate.promise
    return undefined
  }
  const paying = pay(invoice, 'a', '1000000')
  await begun.promise
  await sale('2')
  t.match((await ask()).body.data, { id: invoice.id, processing: true })
  gate.resolve()
  t.equal((await paying).status, 200)
  t.match((await owed()).owed, [{ amount: '0.10' }])
  t.match((await ask()).body.data, { amount: '0.10' })
})

t.test('what was paid beyond what is owed is used up by the fees to come, in whichever month', async (t) => {
  const { f, sale, ask, pay, owed, key, balanced } = await feeShop(t)
  f.clock.nowMs = Date.UTC(2026, 10, 30, 23, 59)
  const sold = await sale('20')
  const invoice = (await ask()).body.data
  f.clock.nowMs = Date.UTC(2026, 11, 1)
  const row = (await f.db.ledger.list({ states: ['settled'], limit: 1 }))[0]!
  const purchase = (await f.db.purchases.find(sold))!
  t.ok(await f.db.ledger.apply(leaveChain(row, purchase)))
  t.equal((await pay(invoice, 'a', '1000000')).status, 200)
  const after = await owed()
  t.match(after.owed, [{ amount: '-1.00', payable: false }])
  t.match(after.months, [{ month: '2026-12', sales: 0, paid: '1.00' }])
  t.match(await ask(), refused('FEES_NOT_PAYABLE', /No fees are owed/))
  await sale('30')
  t.match((await owed()).owed, [{ amount: '0.50', payable: true }])
  t.match((await ask()).body.data, { amount: '0.50' })
  t.equal((await f.call('GET', '/api/v1/fees', { key, headers: { accept: 'text/csv' } })).status, 200)
  await balanced()
})

t.test(
  'a payment that lands when its invoice is over lowers what is owed, once, whoever books it',
  async (t) => {
    const { f, sale, ask, pay, owed, settler, chains, balanced } = await feeShop(t)
    await sale('20')
    const invoice = (await ask()).body.data
    settler.settleWith = async () => ({ status: 'failed_final', transaction: '', reason: 'x', message: 'x' })
    t.equal((await pay(invoice, 'a', '1000000')).status, 402)
    f.clock.nowMs += 31 * MINUTE_MS
    settler.transfers.push('a')
    const failed = (await f.db.ledger.list({ states: ['failed_final'], limit: 1 }))[0]!
    await f.db.ledger.putOff([{ row: failed.row, state: 'failed_final', afterMs: 0, tries: 0 }])
    const recovery = () =>
      createRecovery({
        ledger: f.db.ledger,
        leases: f.db.leases,
        purchases: f.db.purchases,
        sessions: f.db.sessions,
        payments: { isUnderWay: () => false, withhold: () => () => {} },
        ...{ chains, clock: f.clock, log: silentLog, lease: { current: { id: 1, name: 'test' } } },
        refundProofs: { prove: async () => ({ status: 'not_configured' }) },
        notes: { tokenHash: () => 'hash' },
      }).round()
    t.equal((await recovery()) + (await recovery()), 1)
    t.match(await f.db.purchases.find(failed.purchaseId), { status: 'delivered' })
    t.match((await owed()).owed, [{ amount: '0.00' }])
    await balanced()
  },
)

t.test(
  'without a wallet of the operator, a network or enough to settle, the answer says which',
  async (t) => {
    const withoutAccount = await feeShop(t, { payTo: null })
    t.match(await withoutAccount.ask(), refused('FEES_NOT_PAYABLE', /No fees are owed now/))
    await withoutAccount.sale('20')
    t.match((await withoutAccount.owed()).owed, [{ payable: false }])
    t.match(
      await withoutAccount.ask(),
      refused('FEES_NOT_PAYABLE', /no wallet for fees on Base Sepolia.*fees\.payTo/),
    )
    const elsewhere = refused(
      'FEES_NOT_PAYABLE',
      /No fees are owed on this network\. Owed are 1\.00 USDC on Base Sepolia/,
    )
    t.match(await withoutAccount.ask({ network: 'eip155:8453' }), elsewhere)

    const gone = await feeShop(t, { assets: [half] })
    await gone.sale('20')
    t.match(await gone.ask(), refused('FEES_NOT_PAYABLE', /USDC on Base Sepolia is no longer configured/))

    const dust = await feeShop(t, { least: 10_000n })
    await dust.sale('0.199999')
    t.match(
      await dust.ask(),
      refused('FEES_NOT_PAYABLE', /0\.009999 USDC on .*less than 0\.01 USDC, the minimum payment on/),
    )
    await dust.sale('0.00002')
    t.match((await dust.ask()).body.data, { amount: '0.01' })
    t.match(await dust.ask({ network: 7 }), { status: 400, body: { error: { code: 'VALIDATION_ERROR' } } })
  },
)

t.test('what is paid in a token whose decimals are configured anew is owed and paid once', async (t) => {
  const { f, ask, pay, owed, id: storeId } = await feeShop(t)
  const row = { state: 'settled', linkId: null, storeId, amountAtomic: 20_000_000n } as const
  await bring(f.db.ledger, { ...row, response: null, assets: [{ ...usdc, decimals: 5 }] })
  const invoice = (await ask()).body.data
  t.match(invoice, { amount: '1.00' })
  t.equal((await pay(invoice, 'a', '1000000')).status, 200)
  const after = await owed()
  t.strictSame(
    after.owed.map(({ amount, payable }: { amount: string; payable: boolean }) => [amount, payable]),
    [['0.00', false]],
  )
  t.equal(after.months.length, 2, 'the months say what was booked, in its decimals of then')
  t.match(await ask(), refused('FEES_NOT_PAYABLE', /No fees are owed/))
})

t.test('an invoice is paid in the token that is owed, exactly, whatever its rate', async (t) => {
  const { f, sale, ask, pay, id: storeId, owed } = await feeShop(t, { assets: [usdc, half] })
  await sale('20')
  const row = {
    state: 'settled',
    linkId: null,
    storeId,
    asset: half.address,
    amountAtomic: 20_000_020n,
  } as const
  await bring(f.db.ledger, { ...row, response: null, assets: [usdc, half] })
  t.match(await ask(), {
    status: 400,
    body: {
      error: {
        code: 'VALIDATION_ERROR',
        details: [{ path: 'network', message: /1\.000001 HALF on .*1\.00 USDC/ }],
      },
    },
  })
  const invoice = (await ask({ asset: half.address })).body.data
  t.match(invoice, { amount: '1.000001', currency: 'HALF', asset: half.address })
  const { pathname, search } = new URL(invoice.checkoutUrl)
  const { text } = await f.call('GET', pathname + search)
  t.match(text, /<title>Pay 1\.000001 HALF · Fees of @/)
  t.match(text, /<p class="checkout-sum">.*?1\.000001 <small>HALF</s)
  const { checkoutUrl, id } = invoice
  const offer = await f.call('POST', `/api/v1/payments/${id}/pay${new URL(checkoutUrl).search}`)
  t.match(offer.body.accepts, [{ asset: half.address, amount: '1000001', payTo: operator }])
  t.equal(offer.body.accepts.length, 1)
  t.equal((await pay(invoice, 'a', '1000000')).status, 402, 'and in no other')
  t.match((await ask({ asset: usdc.address.toLowerCase() })).body.data, { amount: '1.00', currency: 'USDC' })
  t.match((await owed()).owed, { length: 2 })
})

t.test('nobody else sees or cancels an invoice', async (t) => {
  const { f, opened, sale, ask, key } = await feeShop(t)
  const other = await opened()
  await sale('20')
  const { id } = (await ask()).body.data
  for (const [method, path] of [
    ['GET', `/api/v1/payments/${id}`],
    ['POST', `/api/v1/payments/${id}/cancel`],
    ['POST', `/api/v1/payments/${id}/pay`],
  ] as const)
    t.equal((await f.call(method, path, { key: other.key })).status, 404)
  t.strictSame(await other.invoices(), [])
  t.equal((await f.call('POST', '/api/v1/fees/invoices')).status, 401)
  t.equal((await f.call('POST', `/api/v1/payments/${id}/cancel`, { key })).status, 200, 'its store does')
})
