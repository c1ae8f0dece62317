import t, { type Test } from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { offersOf } from '../../core/offers/offers.ts'
import { createRecovery } from '../../core/payments/recovery.ts'
import { silentLog } from '../../core/ports/log.ts'
import { encodeHeader } from '../../core/x402/header.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { createScriptedSettler, scriptedPayment, testNetwork } from '../../test/helpers/settler.ts'

const decoded = (header: unknown) => JSON.parse(Buffer.from(String(header), 'base64').toString())

/** A shop whose payments go over a scripted chain. */
async function shop(t: Test, more: object = {}) {
  const settler = createScriptedSettler()
  const chains = {
    assets: builtInAssets.filter(({ network }) => network === testNetwork),
    settlers: [settler],
    settler: (of: string) => (of === testNetwork ? settler : undefined),
  }
  const f = await startAdmin(t, { offersOf: (sold) => offersOf(sold, chains, 300), ...more })
  const { key, id: storeId } = await f.store()
  const open = async (body: object = {}) =>
    (await f.call('POST', '/api/v1/payments', { key, body: { amount: '1.50', title: 'A chair', ...body } }))
      .body.data
  type Made = { id: string; clientSecret: string }
  const present = (session: Made, payment?: string) =>
    f.call('POST', `/api/v1/payments/${session.id}/pay?cs=${session.clientSecret}`, {
      ...(payment !== undefined && { headers: { 'payment-signature': payment } }),
    })
  const pay = (session: Made, nonce?: string, value = '1500000') =>
    present(session, nonce === undefined ? undefined : scriptedPayment(nonce, value))
  const read = async ({ id, clientSecret }: Made) =>
    (await f.call('GET', `/api/v1/payments/${id}?cs=${clientSecret}`)).body.data
  /** Until what is written after an answer is written. */
  const settled = async (nonceStates: () => Promise<boolean>) => {
    while (!(await nonceStates())) await new Promise((resolve) => setTimeout(resolve, 2))
  }
  const records = (...states: 'claimed'[]) => f.db.ledger.list({ states, limit: 9 })
  return { f, key, storeId, settler, chains, open, pay, present, read, settled, records }
}

t.test('without a payment the offer comes, in header and body alike, and without the secret', async (t) => {
  const { open, pay } = await shop(t)
  const session = await open()
  const { status, headers, body } = await pay(session)
  t.equal(status, 402)
  t.strictSame(decoded(headers['payment-required']), body)
  t.match(body, {
    x402Version: 2,
    resource: { url: `https://pay.example/api/v1/payments/${session.id}/pay`, description: 'A chair' },
    accepts: [{ scheme: 'exact', network: testNetwork, amount: '1500000' }],
  })
  t.notOk(JSON.stringify(body).includes(session.clientSecret))
})

t.test('who repeats a payment that can be read on chain by then gets no review token', async (t) => {
  const { key, open, pay, f } = await shop(t)
  const session = await open()
  const paid = await pay(session, 'a')
  t.match(paid.headers['x-review-token'], /^[\w-]{43}$/)
  const headers = { 'payment-signature': scriptedPayment('a', '1500000') }
  const bySeller = await f.call('POST', `/api/v1/payments/${session.id}/pay`, { key, headers })
  for (const again of [await pay(session, 'a'), bySeller]) {
    t.equal(again.status, 200)
    t.equal(again.headers['x-purchase-id'], paid.headers['x-purchase-id'])
    t.equal(again.headers['x-review-token'], undefined)
  }
})

t.test('a payment confirms the session, with purchase, ledger and receipt', async (t) => {
  const { f, key, open, pay, read, settler } = await shop(t)
  const session = await open()
  const { status, headers, body } = await pay(session, 'a')
  t.equal(status, 200)
  const { purchaseId, txHash, chain, buyerWallet } = body.data
  t.match(body.data, { id: session.id, status: 'confirmed', processing: false, chain: 'base' })
  t.strictSame(await read(session), body.data)
  t.match(decoded(headers['payment-response']), {
    success: true,
    transaction: txHash,
    payer: buyerWallet,
    amount: '1500000',
  })
  t.equal(headers['x-purchase-id'], purchaseId)
  t.match(headers['x-review-token'], /^[\w-]{43}$/)
  t.equal(chain, 'base')
  const purchase = (await f.call('GET', `/api/v1/purchases/${purchaseId}`, { key })).body.data
  t.match(purchase, {
    id: purchaseId,
    linkId: null,
    sessionId: session.id,
    status: 'delivered',
    amount: '1.50',
    txHash,
  })
  t.equal((await f.db.purchases.ledger(purchaseId)).length, 4)
  t.strictSame(settler.transfers, ['a'])
  t.strictSame((await f.db.purchases.ledgerCheck()).broken, [])
})

t.test('the same payment again, at once or later, gets the same answer and is charged once', async (t) => {
  const { open, pay, settler, f } = await shop(t)
  const session = await open()
  const responses = await Promise.all([1, 2, 3, 4].map(() => pay(session, 'a')))
  f.clock.nowMs += 3_600_000
  responses.push(await pay(session, 'a'))
  for (const { status, body, headers } of responses) {
    t.equal(status, 200)
    t.strictSame(body, responses[0]!.body)
    t.equal(headers['payment-response'], responses[0]!.headers['payment-response'])
  }
  t.equal(settler.transfers.length, 1)
})

t.test('two tabs, two payments: one is charged, the other hears so and is as good as before', async (t) => {
  const { f, open, pay, settler, settled, records } = await shop(t)
  const [session, other] = [await open(), await open()]
  const responses = await Promise.all(['a', 'b', 'c'].map((nonce) => pay(session, nonce)))
  t.strictSame(responses.map(({ status }) => status).toSorted(), [200, 409, 409])
  for (const { status, body, headers } of responses) {
    if (status === 200) continue
    t.equal(body.error.code, 'SESSION_NOT_OPEN')
    t.match(body.error.message, /nothing was charged/i)
    t.match(decoded(headers['payment-response']), { success: false, errorReason: 'SESSION_NOT_OPEN' })
  }
  t.equal(settler.transfers.length, 1)
  await settled(async () => (await records('claimed')).length === 0)
  const free = ['a', 'b', 'c'].find((nonce) => !settler.transfers.includes(nonce))!
  t.equal((await pay(other, free)).status, 200, 'it pays another session')
  t.strictSame((await f.db.purchases.ledgerCheck()).broken, [])
  t.equal((await pay(session)).status, 409, 'and nobody is offered what is paid')
})

t.test('a payment pays one session, and not the wrong amount', async (t) => {
  const { open, pay, settler } = await shop(t)
  const [one, two] = [await open(), await open()]
  t.equal((await pay(one, 'a')).status, 200)
  const again = await pay(two, 'a')
  t.equal(again.status, 409)
  t.equal(again.body.error.code, 'payment_already_used')
  const wrong = await pay(two, 'b', '1499999')
  t.equal(wrong.status, 402)
  t.equal(wrong.body.error.code, 'invalid_payment')
  t.match(decoded(wrong.headers['payment-response']).success, false)
  t.equal(settler.transfers.length, 1)
})

t.test('a refused payment of a session gets the offer again, with its reason', async (t) => {
  const { open, pay, present, settler } = await shop(t)
  const script = { verifyWith: settler.verifyWith, settleWith: settler.settleWith }
  const fails = { reason: 'insufficient_funds', message: 'The payer has too little.' }
  const failed = { ...fails, status: 'failed_final', transaction: '0xdead' } as const
  const cases: Record<string, [payment: string, reason: string, transaction: string, script?: object]> = {
    'too little': [scriptedPayment('a', '1'), 'invalid_exact_evm_payload_authorization_value', ''],
    'another network': [
      encodeHeader({ x402Version: 2, accepted: { scheme: 'exact', network: '<b>' }, payload: {} }),
      ...(['invalid_network', ''] as const),
    ],
    'no funds': [
      scriptedPayment('b', '1500000'),
      ...([fails.reason, ''] as const),
      { verifyWith: async () => ({ ok: false, ...fails }) },
    ],
    'not settled': [
      scriptedPayment('c', '1500000'),
      ...([fails.reason, ''] as const),
      { settleWith: async () => ({ status: 'rejected', ...fails }) },
    ],
    'failed on chain': [
      scriptedPayment('d', '1500000'),
      ...([fails.reason, '0xdead'] as const),
      { settleWith: async () => failed },
    ],
  }
  for (const [name, [payment, reason, transaction, more]] of Object.entries(cases)) {
    const session = await open()
    const plain = (await pay(session)).body
    Object.assign(settler, script, more)
    const { status, headers, body } = await present(session, payment)
    Object.assign(settler, script)
    t.equal(status, 402, name)
    t.strictSame(decoded(headers['payment-required']), { ...plain, error: reason }, name)
    t.match(body, {
      ...{ success: false, x402Version: 2, resource: plain.resource, accepts: plain.accepts },
      error: {
        code: 'invalid_payment',
        reason,
        message: /\S/,
        requestId: headers['x-request-id'],
        retryable: false,
      },
    })
    const receipt = { success: false, errorReason: reason, network: testNetwork, transaction }
    t.match(decoded(headers['payment-response']), receipt, name)
    t.notOk(JSON.stringify(body).includes(session.clientSecret))
  }
  const session = await open()
  const { status, headers, body } = await present(session, 'junk')
  t.equal(status, 400)
  t.match(body, { error: { code: 'invalid_payment' }, accepts: undefined })
  t.equal(headers['payment-required'], undefined)
  const receipt = { success: false, errorReason: 'invalid_payload', network: testNetwork }
  t.match(decoded(headers['payment-response']), receipt)
})

t.test('while a payment is being settled the session waits: no cancel, no expiry', async (t) => {
  const { f, open, pay, read, settler } = await shop(t)
  const session = await open()
  const gate = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  settler.settleWith = async () => {
    begun.resolve()
    await gate.promise
    return undefined
  }
  const paying = pay(session, 'a')
  await begun.promise
  t.match(await read(session), { status: 'open', processing: true })
  const cancel = `/api/v1/payments/${session.id}/cancel?cs=${session.clientSecret}`
  t.equal((await f.call('POST', cancel)).status, 409)
  t.equal((await pay(session)).status, 409, 'nobody else is offered it meanwhile')
  f.clock.nowMs += 31 * 60_000
  t.match(await read(session), { status: 'open', processing: true })
  t.equal(await f.db.sessions.expire(f.clock.nowMs, 9), 0)
  gate.resolve()
  t.equal((await paying).body.data.status, 'confirmed')
  t.match(await read(session), { status: 'confirmed', processing: false })
})

t.test('a canceled, an expired and a failed session take no payment, and say so', async (t) => {
  const { f, open, pay, read, settler } = await shop(t)
  const [canceled, expired, failed] = [await open(), await open(), await open()]
  await f.call('POST', `/api/v1/payments/${canceled.id}/cancel?cs=${canceled.clientSecret}`)
  settler.settleWith = async () => ({
    status: 'failed_final',
    transaction: '0x1',
    reason: 'expired',
    message: 'x',
  })
  for (const nonce of ['x', 'y', 'z']) {
    for (const { status, headers, body } of [await pay(failed, nonce), await pay(failed, nonce)]) {
      t.equal(status, nonce === 'z' ? 400 : 402, 'another payment may do it, until the third has failed')
      t.equal('accepts' in body, status === 402)
      t.match(decoded(headers['payment-response']), { success: false, errorReason: 'expired' })
      t.match(body.error, { code: 'invalid_payment', message: /failed for good/ })
    }
  }
  settler.settleWith = async () => undefined
  t.equal((await read(failed)).status, 'failed')
  f.clock.nowMs += 30 * 60_000
  for (const [session, status] of [
    [canceled, 'canceled'],
    [expired, 'expired'],
    [failed, 'failed'],
  ] as const) {
    for (const nonce of [undefined, `late-${status}`]) {
      const { status: code, body } = await pay(session, nonce)
      t.equal(code, 409)
      t.match(body.error.message, new RegExp(`is ${status}`))
    }
  }
  t.equal(settler.transfers.length, 0)
})

t.test(
  'what a session sells is not sold while its link is paused; who has paid hears so all the same',
  async (t) => {
    const { f, key, open, pay, settler } = await shop(t)
    const body = { url: await f.seller(), title: 'Weather', price: '1.50' }
    const { id: linkId } = (await f.call('POST', '/api/v1/links', { key, body })).body.data
    const [session, paid] = [await open({ linkId }), await open({ linkId })]
    t.equal((await pay(paid, 'a', '1500000')).status, 200)
    const { nowMs } = f.clock
    const suspension = { sinceMs: nowMs, reason: 'down', cooldownUntilMs: nowMs + 900_000, permanent: false }
    await f.db.links.setSuspension(linkId, suspension, nowMs)
    const paused = { status: 503, body: { error: { code: 'api_suspended', message: /not charged/ } } }
    t.match(await pay(session), paused)
    t.match(await pay(session, 'b', '1500000'), paused)
    const refused = await pay(session, 'c', '1')
    t.match(refused, { status: 400, body: { error: { code: 'invalid_payment' }, accepts: undefined } })
    t.strictSame(settler.transfers, ['a'])
    t.equal((await pay(paid, 'a', '1500000')).status, 200)
    const opened = await f.call('POST', '/api/v1/payments', { key, body: { linkId } })
    t.match(opened, { status: 409, body: { error: { code: 'CONFLICT', message: /suspended/ } } })
    await f.db.links.setSuspension(linkId, null, nowMs)
    t.equal((await pay(session, 'b', '1500000')).status, 200)
  },
)

t.test('an outcome that is open is 503 and not 402; the repeat hears the end', async (t) => {
  const { f, open, pay, read, settler, chains } = await shop(t)
  const session = await open()
  settler.settleWith = async (transfer) => {
    transfer()
    return { status: 'pending', transaction: '0x1', reason: 'settlement_pending' }
  }
  const first = await pay(session, 'a')
  t.equal(first.status, 503)
  t.equal(first.body.error.code, 'settlement_pending')
  t.match(await read(session), { status: 'open', processing: true })
  t.equal((await pay(session, 'a')).status, 503)
  t.equal((await pay(session, 'b')).status, 409, 'nobody pays it meanwhile')
  t.match(await pay(session, 'c', '1'), { status: 409, body: { accepts: undefined } })
  settler.settleWith = async () => undefined
  const recovery = createRecovery({
    ledger: f.db.ledger,
    leases: f.db.leases,
    purchases: f.db.purchases,
    sessions: f.db.sessions,
    payments: { isUnderWay: () => false, withhold: () => () => {} },
    ...{ chains, clock: f.clock, log: silentLog, lease: { current: { id: 1, name: 'test' } } },
    refundProofs: { prove: async () => ({ status: 'not_configured' }) },
    notes: { tokenHash: () => 'hash' },
  })
  while ((await read(session)).status !== 'confirmed') await recovery.round()
  const last = await pay(session, 'a')
  t.equal(last.status, 200)
  t.match(last.body.data, { status: 'confirmed', purchaseId: first.body.purchaseId })
  t.equal(settler.transfers.length, 1)
  t.strictSame((await f.db.purchases.ledgerCheck()).broken, [])
})

t.test(
  'a payment that lands after its session has ended otherwise is owed back, and the seller is told',
  async (t) => {
    const { f, key, open, pay, read, settler, chains } = await shop(t)
    await f.call('POST', '/api/v1/webhooks', { key, body: { url: 'https://example.com/hook' } })
    const session = await open()
    settler.settleWith = async () => ({
      status: 'failed_final',
      transaction: '0x1',
      reason: 'expired',
      message: 'x',
    })
    t.equal((await pay(session, 'a')).status, 402)
    t.equal((await f.call('POST', `/api/v1/payments/${session.id}/cancel`, { key })).status, 200)
    // Another account makes it land after all.
    settler.transfers.push('a')
    const failed = (await f.db.ledger.list({ states: ['failed_final'], limit: 1 }))[0]!
    await f.db.ledger.putOff([{ row: failed.row, state: 'failed_final', afterMs: 0, tries: 0 }])
    const recovery = createRecovery({
      ledger: f.db.ledger,
      leases: f.db.leases,
      purchases: f.db.purchases,
      sessions: f.db.sessions,
      payments: { isUnderWay: () => false, withhold: () => () => {} },
      ...{ chains, clock: f.clock, log: silentLog, lease: { current: { id: 1, name: 'test' } } },
      refundProofs: { prove: async () => ({ status: 'not_configured' }) },
      notes: { tokenHash: () => 'hash' },
    })
    t.equal(await recovery.round(), 1)
    t.match(await read(session), { status: 'canceled', purchaseId: null })
    t.match(await f.db.purchases.find(failed.purchaseId), { status: 'refund_due', sessionId: session.id })
    const notified = (await f.db.webhooks.awaitingFanOut(9)).filter(({ kind }) => kind === 'refund.due')
    t.match(notified, [{ purchaseId: failed.purchaseId, sessionId: session.id, detail: 'session_over' }])
    const again = await pay(session, 'a')
    t.equal(again.status, 409)
    t.match(again.body.error, { code: 'payment_already_used', message: /owes you a refund/ })
    t.strictSame((await f.db.purchases.ledgerCheck()).broken, [])
  },
)

t.test('twenty payments a minute from one client are looked at', async (t) => {
  const { open, pay, f } = await shop(t, { limits: { paymentAttemptsPerMinute: 20 } })
  const session = await open()
  for (let i = 0; i < 20; i++) t.equal((await pay(session, 'a', '1')).status, 402)
  const { status, headers } = await pay(session, 'a')
  t.equal(status, 429)
  const receipt = {
    success: false,
    errorReason: 'RATE_LIMIT_EXCEEDED',
    network: testNetwork,
    transaction: '',
  }
  t.match(decoded(headers['payment-response']), receipt)
  f.clock.nowMs += 60_000
  t.equal((await pay(session, 'a')).status, 200)
})

t.test('a database that fails after the charge leaves the buyer the receipt of the charge', async (t) => {
  const { open, pay, f } = await shop(t)
  const session = await open()
  const { find } = f.db.sessions
  let reads = 0
  f.db.sessions.find = async (id: string) => {
    // The first is for the client secret, the second for the claim.
    if (++reads > 2) throw new TollgateError('store_unavailable')
    return find.call(f.db.sessions, id)
  }
  const { status, headers } = await pay(session, 'a')
  t.equal(status, 503)
  t.match(decoded(headers['payment-response']), { success: true, transaction: /^0x/, network: testNetwork })
  f.db.sessions.find = find
  t.equal((await pay(session, 'a')).body.data.status, 'confirmed')
})
