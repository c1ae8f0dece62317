import t, { type Test } from 'tap'
import { testClock } from '../../test/contracts/samples.ts'
import { bring } from '../../test/helpers/rows.ts'
import { openTestStore } from '../../test/helpers/store/testStore.ts'
import { builtInAssets } from '../domain/asset.ts'
import { feesAccountOf } from '../domain/ledger.ts'
import type { PaymentRecord } from '../domain/payment.ts'
import { SESSION_LIFETIME_MS, type Session } from '../domain/session.ts'
import { silentLog } from '../ports/log.ts'
import type { NewSession } from '../ports/store/sessions.ts'
import { abandon, free } from './rules.ts'
import { createTransfers, type ProvedTransfer } from './transfers.ts'

const network = 'eip155:84532'
const usdc = builtInAssets.find((asset) => asset.network === network)!
const payTo = '0x00000000000000000000000000000000000000a1'

async function stage(t: Test) {
  const clock = testClock()
  const store = openTestStore({ clock, storeClock: clock })
  t.teardown(() => store.close())
  const of = (leaseId: number) =>
    createTransfers({
      ledger: store.ledger,
      sessions: store.sessions,
      chains: { assets: builtInAssets },
      clock,
      notes: { tokenHash: (id) => `hash of ${id}` },
      log: silentLog,
      lease: { current: { id: leaseId, name: `process ${leaseId}` } },
    })
  let made = 0
  const session = (more: Partial<NewSession> = {}): Promise<Session> =>
    store.sessions.create({
      id: `00000000-0000-4000-8000-${String(++made).padStart(12, '0')}`,
      storeId: 'store-1',
      linkId: null,
      payout: { base: null, solana: null },
      asks: null,
      secretHash: 'hash',
      price: '49.99',
      title: 'A chair',
      description: '',
      successUrl: null,
      cancelUrl: null,
      allowedOrigin: null,
      clientReferenceId: null,
      metadata: {},
      createdAtMs: clock.nowMs,
      expiresAtMs: clock.nowMs + SESSION_LIFETIME_MS,
      idempotency: null,
      ...more,
    })
  let sent = 0
  const transfer = (more: Partial<ProvedTransfer> = {}): ProvedTransfer => {
    const digits = String(++sent).padStart(64, '0')
    return {
      network,
      asset: usdc.address,
      payTo,
      amountAtomic: 49_990_000n,
      key: digits,
      nonce: `0x${digits}:0`,
      transaction: `0x${digits}`,
      event: 'transfer:0',
      from: '0x00000000000000000000000000000000000000b1',
      block: 7,
      atMs: clock.nowMs,
      ...more,
    }
  }
  return { clock, store, transfers: of(1), another: of(2), session, transfer }
}

t.test(`a transfer confirms its session with purchase and ledger in one commit`, async (t) => {
  const { clock, store, transfers, session, transfer } = await stage(t)
  const [requests, paid] = [await session(), transfer()]
  const booked = await transfers.book(requests, paid)
  t.match(booked, { status: 'confirmed' })
  const { purchaseId } = booked as { purchaseId: string }
  t.match(await store.sessions.find(requests.id), {
    state: 'confirmed',
    endedAtMs: clock.nowMs,
    paid: { purchaseId, txHash: paid.transaction, network, buyerWallet: paid.from },
  })
  t.match(await store.purchases.find(purchaseId), {
    status: 'delivered',
    sessionId: requests.id,
    linkId: null,
    storeId: 'store-1',
    amountAtomic: 49_990_000n,
    feeAtomic: 2_499_500n,
    txHash: paid.transaction,
    paymentKey: paid.key,
  })
  t.equal((await store.purchases.ledger(purchaseId)).length, 4)
  t.match(await store.ledger.find(paid.key), { state: 'delivered', scheme: 'transfer', lease: null })
  t.strictSame(await transfers.book(requests, paid), booked, 'once more is the same')
  t.match(await store.purchases.ledgerCheck(), {
    purchases: 1,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test(`one transfer counts once, however many ask for it at once`, async (t) => {
  const { store, transfers, another, session, transfer } = await stage(t)
  const [one, two, paid] = [await session(), await session(), transfer()]
  const same = await Promise.all(
    Array.from({ length: 10 }, (_, i) => (i % 2 ? transfers : another).book(one, paid)),
  )
  t.ok(same.every(({ status }) => status === 'confirmed' || status === 'busy'))
  t.match(await transfers.book(one, paid), { status: 'confirmed' })
  t.strictSame(await transfers.book(two, paid), { status: 'used' })
  const elsewhere = transfer()
  const rivals = await Promise.all([transfers.book(two, elsewhere), another.book(await session(), elsewhere)])
  t.equal(rivals.filter(({ status }) => status === 'confirmed').length, 1)
  // The same transfer under another key, as a node may report it: its place in the ledger is taken.
  const renamed = { ...paid, key: 'f'.repeat(64) }
  t.strictSame(await transfers.book(await session(), renamed), { status: 'used' })
  t.match(await store.ledger.find(renamed.key), { state: 'rejected' }, 'and nothing of it stays')
  t.match(await store.purchases.ledgerCheck(), {
    purchases: 2,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test(`what pays fees lowers what is owed, once each, also when its invoice is over`, async (t) => {
  const { clock, store, transfers, another, session, transfer } = await stage(t)
  const account = feesAccountOf('store-1')
  const [requests, over] = [await session({ storeId: account }), await session({ storeId: account })]
  const paid = transfer()
  const same = await Promise.all([transfers.book(requests, paid), another.book(requests, paid)])
  t.ok(same.some(({ status }) => status === 'confirmed'))
  await store.sessions.cancel(over.id, clock.nowMs)
  const late = await transfers.book(over, transfer())
  const twice = await transfers.book(requests, transfer())
  t.match([late, twice], [{ status: 'confirmed' }, { status: 'confirmed' }])
  t.match(await store.sessions.find(over.id), { state: 'canceled', paid: null })
  t.match(await store.fees.months('store-1'), [{ sales: 0, feesAtomic: 0n, paidAtomic: 3n * 49_990_000n }])
  const { purchaseId } = late as { purchaseId: string }
  t.match(await store.purchases.find(purchaseId), {
    status: 'delivered',
    storeId: account,
    feeAtomic: 0n,
  })
  t.match(await store.purchases.ledger(purchaseId), [
    { account: /^buyer:0x/, amountAtomic: -49_990_000n },
    { account, amountAtomic: 49_990_000n },
  ])
  t.match(await store.purchases.page('store-1', { limit: 9 }), { purchases: { length: 0 } })
  const { broken, unbalanced } = await store.purchases.ledgerCheck()
  t.strictSame({ broken, unbalanced }, { broken: [], unbalanced: [] })
})

t.test(`of two transfers for one session the second is owed back`, async (t) => {
  const { store, transfers, another, session, transfer } = await stage(t)
  const openSession = await session()
  const both = await Promise.all([
    transfers.book(openSession, transfer()),
    another.book(openSession, transfer()),
  ])
  t.strictSame(both.map(({ status }) => status).toSorted(), ['confirmed', 'owed'])
  t.match(await store.purchases.ledgerCheck(), {
    purchases: 2,
    refundDue: 1,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test(`what lands for a session that has ended is owed back`, async (t) => {
  const { clock, store, transfers, session, transfer } = await stage(t)
  const canceled = await session()
  await store.sessions.cancel(canceled.id, clock.nowMs)
  const expired = await session()
  clock.nowMs += SESSION_LIFETIME_MS
  for (const asked of [canceled, expired]) {
    const paid = transfer()
    const booked = await transfers.book(asked, paid)
    t.match(booked, { status: 'owed' })
    t.strictSame(await transfers.book(asked, paid), booked)
    t.match(await store.ledger.find(paid.key), { state: 'refund_due', errorReason: 'session_over' })
    t.match(await store.sessions.find(asked.id), { paid: null })
  }
  t.match(await store.purchases.ledgerCheck(), {
    refundDue: 2,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test(`what is a payment or a refund already pays for no session`, async (t) => {
  const { clock, store, transfers, session, transfer } = await stage(t)
  const openSession = await session()
  const sold = await bring(store.ledger, {
    state: 'delivered',
    linkId: 'link',
    storeId: 'store-1',
    atMs: clock.nowMs,
  })
  const record = (await store.ledger.find(sold.key))!
  t.strictSame(await transfers.book(openSession, transfer({ key: sold.key })), { status: 'used' })
  const back = transfer()
  const purchase = (await store.purchases.find(record.purchaseId))!
  const refund = { network: record.network, transaction: back.transaction.toUpperCase().replace('X', 'x') }
  t.ok(
    await store.ledger.apply({
      row: record.row,
      from: ['delivered'],
      lease: null,
      purchaseId: purchase.id,
      to: 'refunded',
      purchaseStatus: 'refunded',
      refund: { ...refund, paymentKeys: [] },
      entries: [],
      dueInMs: null,
      durability: 'flushed',
    }),
  )
  t.strictSame(await transfers.book(openSession, back), { status: 'used' })
  t.match(await store.sessions.find(openSession.id), { state: 'open' })
  t.match(await store.ledger.find(back.key), { state: 'rejected', lease: null })
})

t.test(`a payment that was given up and is on chain after all is booked for its session`, async (t) => {
  const { clock, store, transfers, session, transfer } = await stage(t)
  const givenUp = (of: Session) =>
    bring(store.ledger, {
      state: 'failed_final',
      linkId: null,
      sessionId: of.id,
      storeId: 'store-1',
      atMs: clock.nowMs,
      amountAtomic: 49_990_000n,
      network,
      asset: usdc.address,
      payTo,
    })
  const [open_, over] = [await session(), await session()]
  const [inTime, late, other] = [await givenUp(open_), await givenUp(over), await givenUp(await session())]
  await store.sessions.cancel(over.id, clock.nowMs)
  const landed = ({ key, payer: from }: PaymentRecord, more: Partial<ProvedTransfer> = {}) =>
    transfer({ key, from, event: '7', ...more })
  const paid = landed(inTime)
  const { purchaseId } = inTime
  t.strictSame(await transfers.book(open_, paid), { status: 'confirmed', purchaseId })
  t.match(await store.sessions.find(open_.id), { state: 'confirmed', paid: { txHash: paid.transaction } })
  t.strictSame(await transfers.book(open_, paid), { status: 'confirmed', purchaseId }, 'and again')
  t.strictSame(await transfers.book(over, landed(late)), { status: 'owed', purchaseId: late.purchaseId })
  // It stays the other payment session's, even when this session names it.
  t.strictSame(await transfers.book(open_, landed(other)), { status: 'used' })
  t.match(await store.ledger.find(other.key), { state: 'delivered' })
  t.match(await store.purchases.ledgerCheck(), {
    purchases: 3,
    refundDue: 1,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test(`a payment that was given up is not found where another one stands on chain`, async (t) => {
  const { clock, store, transfers, session, transfer } = await stage(t)
  const [own, other, paid] = [await session(), await session(), transfer()]
  const givenUp = await bring(store.ledger, {
    state: 'failed_final',
    linkId: null,
    sessionId: own.id,
    storeId: 'store-1',
    atMs: clock.nowMs,
    amountAtomic: 49_990_000n,
    network,
    asset: usdc.address,
    payTo,
  })
  t.match(await transfers.book(other, paid), { status: 'confirmed' })
  t.strictSame(await transfers.book(own, { ...paid, key: givenUp.key }), { status: 'used' })
  t.match(await store.ledger.find(givenUp.key), { state: 'failed_final' })
  t.match(await store.sessions.find(own.id), { state: 'open' })
  t.match(await store.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test(`an authorisation that was used for other terms pays nothing of what it was signed for`, async (t) => {
  const { clock, store, transfers, session, transfer } = await stage(t)
  const [dear, cheap] = [await session({ price: '100' }), await session()]
  const signed = await bring(store.ledger, {
    state: 'failed_final',
    linkId: null,
    sessionId: dear.id,
    storeId: 'store-1',
    atMs: clock.nowMs,
    amountAtomic: 100_000_000n,
    network,
    asset: usdc.address,
    payTo,
  })
  t.strictSame(await transfers.book(cheap, transfer({ key: signed.key })), { status: 'used' })
  t.match(await store.sessions.find(dear.id), { state: 'open' })
  t.match(await store.ledger.find(signed.key), { state: 'failed_final' })
})

t.test(`what a process had claimed and not booked when it died is booked by the next`, async (t) => {
  const { store, transfers, another, session, transfer } = await stage(t)
  const [requests, paid] = [await session(), transfer()]
  const dying = createTransfers({
    ledger: { ...store.ledger, apply: () => new Promise(() => {}) },
    sessions: store.sessions,
    chains: { assets: builtInAssets },
    clock: testClock(),
    notes: { tokenHash: () => 'hash' },
    log: silentLog,
    lease: { current: { id: 3, name: 'process 3' } },
  })
  void dying.book(requests, paid)
  while ((await store.ledger.find(paid.key)) === undefined) await new Promise(setImmediate)
  t.strictSame(await transfers.book(requests, paid), { status: 'busy' })
  t.strictSame(await another.book(await session(), paid), { status: 'busy' }, 'nobody has it yet')
  const left = (await store.ledger.find(paid.key))!
  t.ok(await store.ledger.apply(free(left, 'abandoned')), 'as the recovery does')
  t.match(await transfers.book(requests, paid), { status: 'confirmed' })
  t.match(await store.purchases.ledgerCheck(), {
    purchases: 1,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test(`a claim that was taken away before it was booked is nobody's yet, not used`, async (t) => {
  const { clock, store, session, transfer } = await stage(t)
  const slow = createTransfers({
    ledger: {
      ...store.ledger,
      async claim(request) {
        const claim = await store.ledger.claim(request)
        if (claim.won) await store.ledger.apply(abandon({ ...request, row: claim.row, state: 'claimed' }))
        return claim
      },
    },
    sessions: store.sessions,
    chains: { assets: builtInAssets },
    clock,
    notes: { tokenHash: () => 'hash' },
    log: silentLog,
    lease: { current: { id: 3, name: 'process 3' } },
  })
  t.strictSame(await slow.book(await session(), transfer()), { status: 'busy' })
})

t.test(`while a payment is being settled for the session nothing else is booked`, async (t) => {
  const { clock, store, transfers, session, transfer } = await stage(t)
  const openSession = await session()
  const row = await store.ledger.claim({
    key: 'a'.repeat(64),
    network,
    asset: usdc.address,
    payer: '0xb',
    nonce: '0x1',
    payTo,
    amountAtomic: 1n,
    validBeforeMs: clock.nowMs,
    scheme: 'exact',
    lease: 1,
    linkId: null,
    sessionId: openSession.id,
    storeId: 'store-1',
    requestHash: 'h',
    purchaseId: 'p',
    payload: '{}',
  })
  if (!row.won) throw new Error('taken')
  const taken = await store.ledger.apply({
    row: row.row,
    from: ['claimed'],
    lease: null,
    purchaseId: 'p',
    to: 'settling',
    session: { id: openSession.id, does: 'take' },
    dueInMs: null,
    durability: 'flushed',
  })
  t.ok(taken)
  const paid = transfer()
  t.strictSame(await transfers.book(openSession, paid), { status: 'busy' })
  t.equal(await store.ledger.find(paid.key), undefined)
})

t.test(`sessions that a transfer may be meant for are told apart by their time`, async (t) => {
  const { clock, store, session } = await stage(t)
  const openSession = await session()
  const rivals = (atMs = clock.nowMs, slackMs = 0) => store.sessions.rivals(openSession, atMs, slackMs)
  const rival = async (atMs?: number, slackMs?: number) => (await rivals(atMs, slackMs)).length > 0
  t.equal(await rival(), false, 'alone')
  await session({ storeId: 'store-2' })
  t.equal(await rival(), false, 'another store')
  const asks = { network: usdc.network, asset: '0xA1', symbol: 'A', decimals: 2, amountAtomic: 4_998n }
  const other = await session({ price: '49.98', asks })
  t.strictSame(await rivals(), [{ price: '49.98', asks }], 'what it asks for is for whoever knows the token')
  t.equal(await rival(clock.nowMs - 999), true, 'within the second that a block is dated by')
  t.equal(await rival(clock.nowMs - 1_000), false, 'before it was made')
  t.equal(await rival(clock.nowMs - 1_000, 30_000), false, 'whatever the slack of its end')
  await store.sessions.cancel(other.id, clock.nowMs)
  t.equal(await rival(), true, 'its transfer may be on its way')
  t.equal(await rival(clock.nowMs + 60_001), false)
  t.equal(await rival(clock.nowMs + 90_000, 30_000), true, 'by a clock that is fast')
  t.equal(await rival(clock.nowMs + 90_001, 30_000), false)
})
