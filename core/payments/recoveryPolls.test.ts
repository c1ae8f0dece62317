import t from 'tap'
import { sampleSession } from '../../test/contracts/sessions/sessions.ts'
import { pending, settledIn, stage } from '../../test/helpers/core/payments/recovery.ts'
import { bring } from '../../test/helpers/rows.ts'
import type { SettleOutcome } from '../ports/chains/settler.ts'
import { payBack } from './reconciliation.ts'
import * as rules from './rules.ts'

t.test('what stays open is looked at every 8 s at most while it can land, then once a minute', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const key = await on.payment(lease.current, 'pending')
  const own = recovery()
  const atMs: number[] = []
  // It expires after 1,000 s.
  for (let ms = 0; ms <= 1_500_000; ms += 1_000) {
    const before = on.requests.length
    await own.round()
    if (on.requests.length > before) atMs.push(ms)
    on.step(1_000)
  }
  t.same(atMs.slice(0, 7), [2_000, 4_000, 8_000, 16_000, 24_000, 32_000, 40_000])
  const gaps = atMs.slice(1).map((ms, i) => ms - atMs[i]!)
  const isLate = atMs.map((ms) => ms >= 1_000_000 + 120_000)
  t.same(new Set(gaps.filter((_, i) => !isLate[i] && i > 2)), new Set([8_000]))
  t.same(new Set(gaps.filter((_, i) => isLate[i])), new Set([60_000]))
  t.match(await on.ledger.parked(5, 10), { total: 1, rows: [{ key }] }, 'and the operator can see it')
  on.settle(settledIn)
  on.step(60_000)
  await own.round()
  t.equal(await on.stateOf(key), 'settled')
  t.match(await on.ledger.parked(5, 10), { total: 0 })
})

t.test(
  'mined and reverted: the reason is kept for the buyer, and the row is looked at when the settler says',
  async (t) => {
    const on = stage()
    const { lease, recovery } = await on.process('own')
    const key = await on.payment(lease.current, 'pending')
    const own = recovery()
    on.settle(() => ({ ...pending, reason: 'reverted', message: 'mined and reverted', recheckMs: 60_000 }))
    on.step(2_000)
    await own.round()
    t.match(await on.find(key), { state: 'pending', errorReason: 'reverted' })
    // A node that cannot tell takes nothing back.
    on.step(60_000)
    on.settle(() => pending)
    await own.round()
    t.match(await on.find(key), { state: 'pending', errorReason: 'reverted' })
    on.settle(() => ({ status: 'failed_final', reason: 'reverted', message: '', transaction: '' }))
    on.step(60_000)
    await own.round()
    t.equal(await on.stateOf(key), 'failed_final')
  },
)

t.test('where many are open, they are asked about less often than a settler would like to', async (t) => {
  const questions = async (rows: number) => {
    const on = stage()
    const dead = await on.process('dead')
    for (let i = 0; i < rows; i++) await on.payment(dead.lease.current, 'pending')
    const recovery = (await on.process('living')).recovery()
    on.settle(() => ({ ...pending, recheckMs: 1_000 }))
    on.step(10_000)
    for (let second = 0; second < 60; second++) {
      await recovery.round()
      on.step(1_000)
    }
    return on.requests.reduce((sum, asked) => sum + asked, 0) / rows
  }
  t.equal(await questions(10), 60)
  const eachOfMany = await questions(400)
  t.ok(eachOfMany > 2 && eachOfMany <= 5, `each of 400 was asked about ${eachOfMany} times in a minute`)
})

t.test('a row that can not be booked is put off with its reason, and stops none of the others', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const own = recovery()
  const foreign = await on.payment(lease.current, 'pending', {
    asset: '0x000000000000000000000000000000000000dEaD',
  })
  const elsewhere = await on.payment(lease.current, 'pending', { network: 'eip155:1' })
  const good = await on.payment(lease.current, 'pending')
  const same = await on.payment(lease.current, 'pending')
  // Two rows of one event: one of them is a mistake, and it is not known which.
  on.settle((record) => ({ ...settledIn(record), transaction: '0xff', event: '7' }) as SettleOutcome)
  for (let i = 0; i < 8; i++) {
    on.step(60_000)
    await own.round()
  }
  t.same(await Promise.all([foreign, elsewhere, good, same].map(on.stateOf)), [
    'pending',
    'pending',
    'settled',
    'pending',
  ])
  t.match((await on.find(foreign)).dueReason, /no longer configured/)
  t.match((await on.find(elsewhere)).dueReason, /eip155:1 \(exact\) is not configured/)
  t.ok((await on.find(same)).dueReason)
  t.match(await on.ledger.parked(5, 10), { total: 3 })
  t.match(await on.summary(), { purchases: 1, broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test('a settler that breaks puts its rows off, and the others’ are settled', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const key = await on.payment(lease.current, 'pending')
  on.settle(() => {
    throw new Error('broken')
  })
  on.step(2_000)
  await recovery().round()
  t.match(await on.find(key), { state: 'pending', tries: 1, dueReason: 'broken' })
})

t.test(
  'what settled is looked up at 30 s and at five minutes, and never again: rounds don’t grow',
  async (t) => {
    const on = stage()
    const { lease, recovery } = await on.process('own')
    const own = recovery()
    for (let n = 0; n < 700; n++) await on.payment(lease.current, 'delivered')
    for (let ms = 0; ms < 3_600_000; ms += 10_000) {
      await own.round()
      on.step(10_000)
    }
    t.same(on.requests, [500, 200, 500, 200])
  },
)

t.test(
  'a transfer that left the chain is booked so when a second look agrees, and again when it comes back',
  async (t) => {
    const on = stage()
    const { lease, recovery } = await on.process('own')
    const own = recovery()
    const key = await on.payment(lease.current, 'delivered')
    on.see(() => 'no')
    on.step(30_000)
    await own.round()
    t.equal(await on.stateOf(key), 'delivered', 'one look is none')
    on.see(() => 'yes')
    on.step(5_000)
    await own.round()
    on.see(() => 'no')
    on.step(270_000)
    await own.round()
    t.equal(await on.stateOf(key), 'delivered', 'nor is one after another that saw it')
    on.see(() => 'unknown')
    on.step(5_000)
    await own.round()
    on.see(() => 'no')
    on.step(5_000)
    await own.round()
    t.match(await on.find(key), { state: 'reorged', errorReason: 'reorged_after_delivery' })
    t.match(await on.summary(), { purchases: 0, broken: { length: 0 }, unbalanced: { length: 0 } })
    on.settle(settledIn)
    on.step(2_000)
    await own.round()
    t.equal(await on.stateOf(key), 'delivered', 'its buyer has had the answer')
    t.match(await on.summary(), { purchases: 1, broken: { length: 0 }, unbalanced: { length: 0 } })
  },
)

t.test('what is owed and left the chain is owed no more', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const own = recovery()
  const landedLate = await on.payment(lease.current, 'pending', { isKept: false })
  on.settle(settledIn)
  on.step(2_000)
  await own.round()
  const failed = await on.payment(lease.current, 'settled', { isKept: false })
  await on.ledger.apply(rules.owe(await on.find(failed), 'upstream_error'))
  const states = async () => [await on.stateOf(landedLate), await on.stateOf(failed)]
  t.same(await states(), ['refund_due', 'refund_due'])
  on.see(() => 'no')
  on.settle(() => pending)
  on.step(30_000)
  await own.round()
  on.step(5_000)
  await own.round()
  t.same(await states(), ['reorged', 'reorged'])
  t.match(await on.summary(), { purchases: 0, broken: { length: 0 }, unbalanced: { length: 0 } })
  on.settle(settledIn)
  on.step(60_000)
  await own.round()
  t.same(await states(), ['refund_due', 'refund_due'], 'it came back')
})

t.test('what was paid back holds no place that a reorganisation has given to another payment', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const own = recovery()
  const back = await on.payment(lease.current, 'pending')
  const other = await on.payment(lease.current, 'pending')
  // Another process moves both in one transaction.
  const places = new Map([
    [back, '0'],
    [other, '2'],
  ])
  on.settle(
    (record) =>
      ({ ...settledIn(record), transaction: '0xff', event: places.get(record.key)! }) as SettleOutcome,
  )
  on.see(({ key, event }) => (places.get(key) === event ? 'yes' : 'no'))
  on.step(2_000)
  await own.round()
  const record = await on.find(back)
  const purchase = (await on.store.purchases.find(record.purchaseId))!
  const refund = { network: record.network, transaction: '0xbb', paymentKeys: [] }
  t.ok(await on.ledger.apply(payBack(record, purchase, refund)))
  // The same transaction, in a block where its events have other numbers.
  places.set(back, '2').set(other, '0')
  for (const ms of [30_000, 5_000, 60_000]) {
    on.step(ms)
    await own.round()
  }
  t.match(await on.find(other), { state: 'settled', transaction: '0xff', event: '0', dueReason: null })
  t.match(await on.find(back), { state: 'refunded', transaction: '0xff', event: null })
  t.match(await on.store.purchases.find(record.purchaseId), { status: 'refunded', txHash: '0xff' })
  t.match(await on.summary(), { purchases: 2, broken: { length: 0 }, unbalanced: { length: 0 } })
  // The other one is checked twice more.
  const asked = on.requests.length
  for (let i = 0; i < 4; i++) {
    on.step(600_000)
    await own.round()
  }
  t.same(on.requests.slice(asked), [1, 1], 'and nobody looks at what was paid back')
})

t.test('looks that say nothing are made again, until one does', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const own = recovery()
  const key = await on.payment(lease.current, 'delivered')
  on.see(() => 'unknown')
  let polls = 0
  for (let ms = 0; ms < 3_600_000; ms += 2_000) {
    const before = on.requests.length
    await own.round()
    polls += on.requests.length - before
    on.step(2_000)
  }
  t.ok(polls > 5 && polls < 20, String(polls))
  on.see(() => 'no')
  for (let i = 0; i < 2; i++) {
    on.step(600_000)
    await own.round()
  }
  t.equal(await on.stateOf(key), 'reorged')
})

t.test(
  'a session whose network is not configured any more is named, and confirmed when it is back',
  async (t) => {
    const s = stage()
    const recovery = (await s.process('a')).recovery()
    const session = await s.store.sessions.create(sampleSession('session', { expiresAtMs: 2_000_000 }))
    const { key, purchaseId } = await bring(s.ledger, {
      state: 'pending',
      linkId: null,
      sessionId: session.id,
      storeId: session.storeId,
      lease: 99,
    })
    const settlerOf = s.chains.settler
    s.chains.settler = () => undefined
    for (let i = 0; i < 12; i++) {
      s.step(60_000)
      await recovery.round()
    }
    t.match(await s.store.sessions.find(session.id), { state: 'open', paymentRow: Number })
    t.match(await s.ledger.parked(5, 9), {
      total: 1,
      rows: [{ purchaseId, sessionId: session.id, state: 'pending', dueReason: /is not configured/ }],
    })
    s.chains.settler = settlerOf
    s.settle(settledIn)
    s.step(60_000)
    await recovery.round()
    t.equal(await s.stateOf(key), 'delivered')
    t.match(await s.store.sessions.find(session.id), { state: 'confirmed', paid: { purchaseId } })
  },
)
