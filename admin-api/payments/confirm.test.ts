import type { Test } from 'tap'
import t from 'tap'
import { serialQueue } from '../../adapters/chains/proofs.ts'
import { leaveChain } from '../../core/payments/reconciliation.ts'
import type { TransferVerdict } from '../../core/ports/chains/transferProofs.ts'
import { buyer, hash, MINUTE_MS, shop, usdc } from '../../test/helpers/admin-api/shop.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { bring } from '../../test/helpers/rows.ts'
import { eventBody } from '../webhooks/eventBody.ts'

t.test('a transfer that the chain proves confirms the session; repeating it answers the same', async (t) => {
  const { f, chain, open, send, confirm, read } = await shop(t)
  const session = await open()
  const paid = send()
  const { status, body } = await confirm(session.id, {
    txHash: paid.transaction.toUpperCase().replace('X', 'x'),
  })
  t.equal(status, 200)
  t.match(body.data, {
    ...{ id: session.id, status: 'confirmed', txHash: paid.transaction, chain: 'base', buyerWallet: buyer },
    purchaseId: /^[0-9a-f-]{36}$/,
  })
  t.notOk('refundDue' in body.data)
  t.strictSame(await read(session.id), body.data)
  t.match(chain.requests, [
    {
      ...{ network: 'eip155:84532', asset: usdc, amountAtomic: 49_990_000n, transaction: paid.transaction },
      notBeforeMs: f.clock.nowMs,
    },
  ])
  const asked = chain.requests.length
  for (const again of [{}, undefined, { txHash: null }]) {
    const response = await confirm(session.id, again)
    t.strictSame([response.status, response.body], [200, body])
  }
  t.equal(chain.requests.length, asked, 'what is booked is not asked of the chain')
  const verdicts: (TransferVerdict | undefined)[] = [
    undefined,
    { status: 'unavailable', message: 'No node answers.' },
    { status: 'pending', transaction: paid.transaction, isKnown: false },
    { status: 'mismatch', what: 'time', atMs: 1 },
  ]
  for (const verdict of verdicts) {
    chain.verdict = verdict
    const response = await confirm(session.id, { txHash: paid.transaction, chain: 'base' })
    t.strictSame([response.status, response.body], [200, body], 'whatever a node says of it by now')
  }
  t.match(await f.db.purchases.ledgerCheck(), {
    purchases: 1,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test(
  'without a hash the one transfer that fits is found; while there is none the answer is 202',
  async (t) => {
    const { f, chain, open, send, confirm } = await shop(t)
    const session = await open()
    const none = await confirm(session.id, {})
    t.equal(none.status, 202)
    t.match(none.body.data, { id: session.id, status: 'open', txHash: null })
    t.equal(none.headers['retry-after'], '5')
    send({ amountAtomic: 49_980_000n })
    send({ atMs: f.clock.nowMs - MINUTE_MS })
    t.equal((await confirm(session.id)).status, 202, 'another amount, or from before the session')
    chain.verdict = { status: 'pending', transaction: hash('a'), isKnown: true }
    t.equal((await confirm(session.id)).status, 202)
    t.equal((await confirm(session.id, { txHash: hash('a') })).status, 202)
    chain.verdict = undefined
    t.equal((await confirm(session.id, { txHash: hash('e') })).status, 202, 'no node knows it yet')
    const paid = send()
    t.match(await confirm(session.id), {
      status: 200,
      body: { data: { status: 'confirmed', txHash: paid.transaction } },
    })
  },
)

t.test('what lands for a session that has ended is booked as owed, told, and can be refunded', async (t) => {
  const { f, key, open, send, confirm } = await shop(t, { refunds: true })
  const [expired, canceled, alone] = [await open('1'), await open('2'), await open('3')]
  await f.call('POST', `/api/v1/payments/${canceled.id}/cancel`, { key })
  f.clock.nowMs += 30 * MINUTE_MS
  t.match(await confirm(alone.id), { status: 409, body: { error: { code: 'SESSION_NOT_OPEN' } } })
  for (const [session, amountAtomic] of [
    [expired, 1_000_000n],
    [canceled, 2_000_000n],
  ] as const) {
    const late = send({ amountAtomic })
    const response = await confirm(session.id, { txHash: late.transaction })
    t.match(response, {
      status: 200,
      body: { data: { txHash: null, refundDue: { txHash: late.transaction } } },
    })
    t.notMatch(response.body.data.status, /confirmed|open/)
    t.strictSame((await confirm(session.id, { txHash: late.transaction })).body, response.body)
    t.strictSame((await confirm(session.id)).body, response.body, 'a look finds it as well')
    const { purchaseId } = response.body.data.refundDue
    const sold = await f.call('GET', `/api/v1/purchases/${purchaseId}`, { key })
    t.match(sold.body.data, { status: 'refund_due', txHash: late.transaction })
    const back = { key, body: { txHash: hash(session === expired ? 'c' : 'd') } }
    t.match(await f.call('POST', `/api/v1/purchases/${purchaseId}/refunds`, back), {
      status: 200,
      body: { data: { status: 'refunded' } },
    })
  }
})

/** The purchases of a session's store, as status and transaction. */
const salesOf = async ({ f, key }: Awaited<ReturnType<typeof shop>>) => {
  const { body } = await f.call('GET', '/api/v1/purchases', { key })
  return body.data.purchases.map(({ status }: { status: string }) => status).toSorted()
}

t.test("confirming one session many times at once takes no other session's transfer", async (t) => {
  for (let run = 0; run < 5; run++) {
    const s = await shop(t)
    const [one, other] = [await s.open(), await s.open()]
    const first = s.send({ event: 'transfer:0' })
    s.send({ transaction: first.transaction, event: 'transfer:1' })
    const body = { txHash: first.transaction }
    for (const { status, body: response } of await Promise.all(
      [1, 2, 3].map(() => s.confirm(one.id, body)),
    )) {
      t.equal(status, 200)
      t.match(response.data, { status: 'confirmed', txHash: first.transaction })
      t.notOk('refundDue' in response.data)
    }
    t.match(await s.confirm(other.id, body), { status: 200, body: { data: { status: 'confirmed' } } })
    t.match(await s.confirm(one.id, body), { status: 200, body: { data: { status: 'confirmed' } } })
    t.strictSame(await salesOf(s), ['delivered', 'delivered'])
    t.match(await s.f.db.purchases.ledgerCheck(), { purchases: 2, broken: { length: 0 } })
  }
})

t.test('sessions that are confirmed by one transaction at once get a transfer each', async (t) => {
  const s = await shop(t)
  const sessions = [await s.open(), await s.open(), await s.open()]
  const first = s.send({ event: 'transfer:0' })
  for (const event of ['transfer:1', 'transfer:2']) s.send({ transaction: first.transaction, event })
  const body = { txHash: first.transaction }
  let responses = await Promise.all([...sessions, ...sessions].map(({ id }) => s.confirm(id, body)))
  for (let again = 0; responses.some(({ status }) => status === 202) && again < 5; again++)
    responses = await Promise.all(sessions.map(({ id }) => s.confirm(id, body)))
  for (const { status, body } of responses)
    t.match({ status, body }, { status: 200, body: { data: { status: 'confirmed' } } })
  t.strictSame(await salesOf(s), ['delivered', 'delivered', 'delivered'])
})

t.test(
  'what else the transaction of a paid session has paid is owed, at once and in every repeat',
  async (t) => {
    const s = await shop(t)
    const session = await s.open()
    const first = s.send({ event: 'transfer:0' })
    for (const event of ['transfer:1', 'transfer:2']) s.send({ transaction: first.transaction, event })
    const confirmed = await s.confirm(session.id, { txHash: first.transaction })
    t.match(confirmed, { status: 200, body: { data: { status: 'confirmed' } } })
    t.equal(confirmed.body.data.refundDue.txHash, first.transaction)
    t.not(confirmed.body.data.refundDue.purchaseId, confirmed.body.data.purchaseId)
    t.strictSame((await s.confirm(session.id, { txHash: first.transaction })).body, confirmed.body)
    t.strictSame(await salesOf(s), ['delivered', 'refund_due', 'refund_due'])
    t.match(await s.f.db.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
  },
)

t.test('what landed for one session before its transaction confirmed another is left to it', async (t) => {
  const s = await shop(t)
  const [one, other] = [await s.open(), await s.open()]
  const first = s.send({ event: 'transfer:0' })
  s.send({ transaction: first.transaction, event: 'transfer:1' })
  await s.confirm(one.id, { txHash: first.transaction })
  await s.f.call('POST', `/api/v1/payments/${other.id}/cancel`, { key: s.key })
  const late = await s.confirm(other.id, { txHash: first.transaction })
  t.match(late, { status: 200, body: { data: { status: 'canceled', refundDue: {} } } })
  t.strictSame(await salesOf(s), ['delivered', 'refund_due'])
})

t.test('a transfer of the second before a session confirms it, and none that is older', async (t) => {
  const { f, open, send, confirm } = await shop(t)
  f.clock.nowMs += 700
  const session = await open()
  const before = send({ atMs: f.clock.nowMs - 701 })
  t.match(await confirm(session.id, {}), { status: 202 })
  t.not((await confirm(session.id, { txHash: before.transaction })).status, 200)
  const now = send({ atMs: f.clock.nowMs - 700 })
  t.match(await confirm(session.id, {}), { status: 200, body: { data: { txHash: now.transaction } } })
})

t.test('who pays a session twice is owed the second payment', async (t) => {
  const { open, send, confirm } = await shop(t)
  const session = await open()
  const [first, second] = [send(), send()]
  await confirm(session.id, { txHash: first.transaction })
  const { status, body } = await confirm(session.id, { txHash: second.transaction })
  t.equal(status, 200)
  t.match(body.data, { status: 'confirmed', txHash: first.transaction })
  t.match(body.data.refundDue, { txHash: second.transaction })
})

t.test(
  'a transfer to the wallet that its buyer was shown counts after the seller has moved on',
  async (t) => {
    const { f, chain, wallet, key, open, send, confirm } = await shop(t)
    const session = await open()
    const paid = send()
    chain.payee = wallet.address
    const next = '0x00000000000000000000000000000000000000A7'
    t.equal((await f.movePayout(key, wallet, { base: next })).status, 200)
    t.match(await confirm(session.id, { txHash: paid.transaction }), {
      status: 200,
      body: { data: { status: 'confirmed', txHash: paid.transaction } },
    })
    chain.payee = next
    const later = await open()
    t.match(await confirm(later.id, { txHash: send().transaction }), { status: 200 })
  },
)

for (const cold of [undefined, '0x00000000000000000000000000000000000000A7'])
  t.test(`a store takes no transfers to the ${cold ? 'cold ' : ''}wallet of another one`, (t) =>
    steal(t, cold),
  )

async function steal(t: Test, cold?: string) {
  const { f, wallet, key, open, send, confirm } = await shop(t)
  const thief = await f.store()
  if (cold !== undefined) t.equal((await f.movePayout(key, wallet, { base: cold })).status, 200)
  f.clock.nowMs += 1
  const moved = await f.movePayout(thief.key, thief.wallet, { base: cold ?? wallet.address })
  t.equal(moved.status, 200)
  const session = await open()
  const body = { amount: '49.99', title: 'Nothing' }
  const trap = (await f.call('POST', '/api/v1/payments', { key: thief.key, body })).body.data
  const paid = send()
  const taken = { status: 409, body: { error: { code: 'CONFLICT' } } }
  t.match(await confirm(trap.id, { txHash: paid.transaction }, thief.key), taken)
  t.match(await confirm(trap.id, {}, thief.key), taken)
  t.match(await confirm(session.id, { txHash: paid.transaction }), { status: 200 })
  t.match(await confirm(trap.id, { txHash: paid.transaction }, thief.key), {
    status: 409,
    body: { error: { code: 'TRANSACTION_ALREADY_USED' } },
  })
}

t.test('who asks again while a look is under way waits for that look', async (t) => {
  const looking = Promise.withResolvers<void>()
  let polls = 0
  const f = await startAdmin(t, {
    transferProofs: {
      prove: async () => ({ status: 'unavailable', message: 'No node answers.' }),
      async find() {
        polls++
        await looking.promise
        return { status: 'none', isComplete: true }
      },
    },
  })
  const { key } = await f.store()
  const open = async () =>
    (await f.call('POST', '/api/v1/payments', { key, body: { amount: '1', title: 'x' } })).body.data.id
  const [one, other] = [await open(), await open()]
  const confirm = (id: string) => f.call('POST', `/api/v1/payments/${id}/confirm`, { key })
  const asked = [...Array.from({ length: 8 }, () => confirm(one)), confirm(other)]
  while (polls === 0) await new Promise(setImmediate)
  looking.resolve()
  for (const { status } of await Promise.all(asked)) t.equal(status, 202)
  t.equal(polls, 2, 'one a session')
  t.equal((await confirm(one)).status, 202)
  t.equal(polls, 3, 'and a new one when that is over')
})

t.test('for a session that is long over nothing is looked for, and a transfer is named', async (t) => {
  const { f, chain, open, send, confirm } = await shop(t)
  const session = await open()
  f.clock.nowMs += 30 * MINUTE_MS + 60 * MINUTE_MS
  const late = send()
  t.match(await confirm(session.id), {
    status: 409,
    body: { error: { code: 'TRANSACTION_NOT_NAMED', message: /an hour/ } },
  })
  t.strictSame(chain.requests, [])
  t.match(await confirm(session.id, { txHash: late.transaction }), {
    status: 200,
    body: { data: { refundDue: { txHash: late.transaction } } },
  })
})

t.test('the webhook of a confirmed session and of a late transfer is in the same commit', async (t) => {
  const { f, key, open, send, confirm } = await shop(t)
  const events = ['purchase.confirmed', 'payment.confirmed', 'refund.due']
  const made = await f.call('POST', '/api/v1/webhooks', {
    key,
    body: { url: 'https://hear.example/', events },
  })
  t.equal(made.status, 201)
  const session = await open()
  await confirm(session.id, { txHash: send().transaction })
  await confirm(session.id, { txHash: send().transaction })
  const kept = await f.db.webhooks.awaitingFanOut(10)
  t.strictSame(kept.map(({ kind }) => kind).toSorted(), [
    'payment.confirmed',
    'purchase.confirmed',
    'purchase.confirmed',
    'refund.due',
  ])
  const bodies = await Promise.all(kept.map(async (event) => JSON.parse(await eventBody(f.db, event))))
  const sales = bodies.filter(({ event }) => event === 'purchase.confirmed')
  const owed = bodies.find(({ event }) => event === 'refund.due')
  t.strictSame(
    sales.map(({ purchaseId, data }) => [purchaseId === owed.purchaseId, data.status]).toSorted(),
    [
      [false, 'delivered'],
      [true, 'refund_due'],
    ],
    'a sale of which the money is owed back says so',
  )
  for (const { event, data } of bodies) t.equal('status' in data, event === 'purchase.confirmed', event)
})

t.test('what the chain does not prove changes nothing, and the answer says why', async (t) => {
  const { f, chain, open, confirm, read } = await shop(t)
  const session = await open()
  const unavailable = { status: 'unavailable', message: 'No node answers.' } as const
  const cases: [TransferVerdict, number, string, RegExp, boolean][] = [
    ...(['failed', 'asset', 'recipient', 'sender', 'amount', 'time'] as const).map(
      (what): [TransferVerdict, number, string, RegExp, boolean] => [
        { status: 'mismatch', what, ...(what === 'amount' && { movedAtomic: 49_980_000n }) },
        422,
        'TRANSACTION_MISMATCH',
        what === 'amount'
          ? /exactly 49\.99 USDC \(0x036C\w+\) to 0x\w+ on Base Sepolia, but this transaction .*49\.98 USDC/
          : /this transaction \w+/,
        false,
      ],
    ),
    [unavailable, 503, 'CHAIN_UNAVAILABLE', /No node/, true],
    [{ status: 'not_configured' }, 503, 'CHAIN_NOT_CONFIGURED', /Base Sepolia cannot be verified/, false],
  ]
  for (const [verdict, status, code, message, retryable] of cases) {
    chain.verdict = verdict
    const response = await confirm(session.id, { txHash: hash('b') })
    t.equal(response.status, status, JSON.stringify(verdict.status))
    t.match(response.body.error, { code, message, retryable })
  }
  chain.verdict = { status: 'mismatch', what: 'time', atMs: Date.UTC(2020, 0, 2, 3, 4, 5) }
  const early = (await confirm(session.id, { txHash: hash('b') })).body.error
  const madeAt = new Date(f.clock.nowMs).toISOString()
  t.match(
    early.message,
    'landed at 2020-01-02T03:04:05.000Z by the clock of the chain, before the session was created',
  )
  t.match(early.message, `created at ${madeAt} by the clock of the gateway`)
  chain.verdict = unavailable
  t.match(await confirm(session.id), { status: 503, body: { error: { code: 'CHAIN_UNAVAILABLE' } } })
  chain.verdict = { status: 'none', isComplete: false }
  t.match(await confirm(session.id), { status: 409, body: { error: { code: 'TRANSACTION_NOT_NAMED' } } })
  t.match(await read(session.id), { status: 'open', processing: false })
})

t.test('a payment by x402 that was given up and landed late ends, named or looked for', async (t) => {
  for (const isNamed of [true, false]) {
    const { f, chain, id: storeId, open, send, confirm, wallet } = await shop(t)
    const [session, other] = [await open(), await open('1')]
    const { key } = await bring(f.db.ledger, {
      ...{ state: 'failed_final', linkId: null, sessionId: session.id, storeId, payer: buyer, asset: usdc },
      ...{ amountAtomic: 49_990_000n, payTo: wallet.address, atMs: f.clock.nowMs },
    })
    chain.payee = wallet.address
    const late = send({ key, event: '3' })
    const response = await confirm(session.id, isNamed ? { txHash: late.transaction } : {})
    t.match(response, { status: 200, body: { data: { status: 'confirmed', txHash: late.transaction } } })
    t.equal((await confirm(other.id)).status, 202)
    t.match(await f.db.purchases.ledgerCheck(), {
      purchases: 1,
      broken: { length: 0 },
      unbalanced: { length: 0 },
    })
  }
})

t.test('a transfer that left the chain is not confirmed by being named once more', async (t) => {
  const { f, open, send, confirm } = await shop(t)
  const [session, other] = [await open(), await open('7')]
  const paid = send()
  const { purchaseId } = (await confirm(session.id, { txHash: paid.transaction })).body.data
  const record = (await f.db.ledger.find(paid.key))!
  await f.db.ledger.apply(leaveChain(record, await f.db.purchases.find(purchaseId)))
  t.match(await confirm(other.id, { txHash: paid.transaction }), { status: 422 })
  t.match(await f.db.purchases.ledgerCheck(), {
    purchases: 0,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test('strangers, bad bodies and other chains are refused before a chain is asked', async (t) => {
  const { f, chain, open, confirm } = await shop(t)
  const session = await open()
  const stranger = await f.store()
  const none = { status: 404, body: { error: { code: 'NOT_FOUND' } } }
  t.match(await confirm(session.id, {}, stranger.key), none)
  t.match(await confirm('00000000-0000-4000-8000-000000000000', {}), none)
  t.match(await confirm('x', {}), none)
  t.equal((await f.call('POST', `/api/v1/payments/${session.id}/confirm`, { body: {} })).status, 401)
  const withSecret = `/api/v1/payments/${session.id}/confirm?cs=${session.clientSecret}`
  t.equal((await f.call('POST', withSecret, { body: {} })).status, 401, 'the buyer does not confirm')
  const bodies = [
    ...['', 'x', '0x', hash('g'), `${hash('b')}b`, '5'.repeat(88), 'x'.repeat(500), 7, {}, '\u202e'],
  ].map((txHash) => ({ txHash }))
  for (const body of [...bodies, { chain: 'ethereum' }, { hash: hash('a') }, [], 'x']) {
    const response = await confirm(session.id, body)
    t.equal(response.status, 400, JSON.stringify(body))
    t.match(response.body.error, { code: 'VALIDATION_ERROR' })
  }
  t.match(await confirm(session.id, { txHash: hash('a'), chain: 'solana' }), {
    status: 503,
    body: { error: { code: 'CHAIN_NOT_CONFIGURED', message: /solana/ } },
  })
  t.strictSame(chain.requests, [])
})

t.test('looks without a name are counted for each store', async (t) => {
  const { open, confirm } = await shop(t)
  const session = await open()
  const responses = await Promise.all(Array.from({ length: 31 }, () => confirm(session.id)))
  t.equal(responses.filter(({ status }) => status === 202).length, 30)
  t.match(responses.find(({ status }) => status === 429)?.body.error, { code: 'RATE_LIMIT_EXCEEDED' })
  t.equal((await confirm(session.id, { txHash: hash('a') })).status, 202, 'one that is named is none')
})

t.test('a store that asks for many looks at once keeps no other store from its own', async (t) => {
  const inTurn = serialQueue()
  const look = () => inTurn(async () => ({ status: 'none', isComplete: true }) as const)
  const away = { status: 'unavailable', message: 'No node answers.' } as const
  const f = await startAdmin(t, {
    transferProofs: { prove: async () => away, find: () => look().catch(() => away) },
  })
  const ask = async (key: string, times: number) => {
    const body = { amount: '1', title: 'x' }
    const { id } = (await f.call('POST', '/api/v1/payments', { key, body })).body.data
    return () =>
      Promise.all(
        Array.from({ length: times }, () => f.call('POST', `/api/v1/payments/${id}/confirm`, { key })),
      )
  }
  const [many, one] = [await ask((await f.store()).key, 30), await ask((await f.store()).key, 1)]
  const [noisy, quiet] = await Promise.all([many(), one()])
  t.strictSame(
    [...noisy, ...quiet].map(({ status }) => status),
    Array(31).fill(202),
  )
})
