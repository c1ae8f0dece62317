import t from 'tap'
import { call, ended, key, landElsewhere, start, won } from '../../test/helpers/core/payments/engine.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { storedResponse } from '../../test/helpers/rows.ts'
import { scriptedSettled, testNetwork } from '../../test/helpers/settler.ts'
import { createTestDatabase } from '../../test/helpers/store/testStore.ts'
import type { SettleOutcome } from '../ports/chains/settler.ts'
import { resume, takeUp } from './reconciliation.ts'
import { free, owe } from './rules.ts'

t.test('a buyer whose payment was paid back meanwhile hears that, and nothing is handed over', async (t) => {
  const stage = await start()
  const { payments, presented, row } = stage
  const paid = await won(payments, presented)
  await payments.settle(paid, storedResponse)
  // The seller refunds at once what was recorded.
  const landed = await landElsewhere(stage)
  const back = { network: testNetwork, transaction: `0x${'b'.repeat(64)}`, paymentKeys: [] }
  t.equal(await payments.refund((await row())!, landed.purchase!, back), 'refunded')
  await t.rejects(payments.record(paid), { code: 'payment_already_used', reason: 'refunded' })
  payments.deliver(paid, 'not_charged')
  await ended(payments, paid)
  t.match(await row(), { state: 'refunded' })
  t.equal(await payments.refund((await row())!, landed.purchase!, back), 'refunded', 'again')
  const another = { ...back, transaction: `0x${'c'.repeat(64)}` }
  t.equal(await payments.refund((await row())!, landed.purchase!, another), 'refunded_otherwise')
})

t.test('a call whose payment somebody else has booked meanwhile hands its answer over', async (t) => {
  const stage = await start()
  const { payments, presented, row } = stage
  const paid = await won(payments, presented)
  await payments.settle(paid, storedResponse)
  await landElsewhere(stage)
  await payments.record(paid)
  payments.deliver(paid, 'delivered')
  await ended(payments, paid)
  t.match(await row(), { state: 'delivered' })
})

t.test(
  'a settler hears that its outcome is somebody else’s to count where the row was taken up before it was written',
  async (t) => {
    const pending: SettleOutcome = {
      status: 'pending',
      transaction: '0xaa',
      reason: 'reverted',
      message: 'x',
    }
    const failed: SettleOutcome = { ...pending, status: 'failed_final', message: 'x' }
    for (const when of ['never', 'before the outcome', 'before the sale'] as const)
      for (const outcome of [undefined, pending, failed]) {
        const stage = await start()
        const { payments, presented, settler } = stage
        const notified: unknown[] = []
        settler.overtaken = (identity, reportedOutcome) => void notified.push([identity.key, reportedOutcome])
        let reportedOutcome: SettleOutcome | undefined
        settler.settleWith = async (transfer, { amountAtomic }) => {
          if (when === 'before the outcome') await landElsewhere(stage)
          return (reportedOutcome = outcome ?? scriptedSettled(transfer(), amountAtomic))
        }
        const paid = await won(payments, presented)
        await payments.settle(paid, storedResponse)
        if (when === 'before the sale' && outcome === undefined) await landElsewhere(stage)
        if (outcome === undefined) await payments.record(paid)
        payments.deliver(paid, outcome === undefined ? 'delivered' : 'not_charged')
        await ended(payments, paid)
        const isOvertaken =
          when === 'before the outcome' || (when === 'before the sale' && outcome === undefined)
        t.same(
          notified,
          isOvertaken ? [[key, reportedOutcome]] : [],
          `${when}, ${outcome?.status ?? 'settled'}`,
        )
        if (isOvertaken) t.equal((notified[0] as unknown[])[1], reportedOutcome, 'the very object')
      }
  },
)

t.test(
  'charged first, and answered by another process meanwhile: the seller is not asked again',
  async (t) => {
    const database = createTestDatabase()
    const frozen = await start({ database })
    const paid = await won(frozen.payments, frozen.presented, true)
    await frozen.payments.settle(paid, null)
    await landElsewhere(frozen)
    const { payments, presented, row } = await start({ database, name: 'two' })
    const resumed = (await payments.resume((await row())!, presented, call(true)))!
    await t.rejects(frozen.payments.record(paid), { code: 'settlement_pending' }, 'it is asked now')
    payments.deliver(resumed, 'delivered', storedResponse)
    await ended(payments, resumed)
    await t.rejects(frozen.payments.record(paid), { code: 'settlement_pending' }, 'it has answered')
    frozen.payments.deliver(paid, 'not_charged')
    await ended(frozen.payments, paid)
    t.match(await row(), { state: 'delivered', hasResponse: true })
  },
)

t.test('a seller who was asked late, and in vain, is not asked again by who had looked before', async (t) => {
  const database = createTestDatabase()
  const first = await start({ database })
  const paid = await won(first.payments, first.presented, true)
  await first.payments.settle(paid, null)
  first.payments.deliver(paid, 'not_charged')
  await ended(first.payments, paid)
  await landElsewhere(first)
  const second = await start({ database, name: 'two' })
  const seen = (await second.row())!
  t.match(seen, { state: 'refund_due', errorReason: 'landed_late' })
  const resumed = (await first.payments.resume(seen, first.presented, call(true)))!
  first.payments.deliver(resumed, 'seller_failed', undefined, 'upstream_error')
  await ended(first.payments, resumed)
  t.match(await second.row(), { state: 'refund_due', errorReason: 'upstream_error' })
  t.equal(await second.payments.resume(seen, second.presented, call(true)), undefined)
  t.match(await second.row(), { state: 'refund_due', errorReason: 'upstream_error' })
})

t.test('a call that ends late is waited for by whoever takes its payment up, and owes nothing', async (t) => {
  const stage = await start()
  const { payments, presented, row } = stage
  const paid = await won(payments, presented, true)
  await payments.settle(paid, null)
  await landElsewhere(stage)
  t.equal(await payments.resume((await row())!, presented, call(true)), undefined, 'it is under way')
  await t.rejects(payments.record(paid), { code: 'payment_already_used' })
  payments.deliver(paid, 'not_charged')
  await ended(payments, paid)
  const resumed = (await payments.resume((await row())!, presented, call(true)))!
  t.match(await row(), { state: 'settled' })
  payments.deliver(resumed, 'delivered', storedResponse)
  await ended(payments, resumed)
  t.match(await row(), { state: 'delivered' })
})

t.test(
  'a call that stood still owes nothing that its own process has taken over from another one',
  async (t) => {
    const stage = await start()
    const { store, payments, presented, row, lease } = stage
    const paid = await won(payments, presented, true)
    await payments.settle(paid, null)
    await landElsewhere(stage)
    const other = (await store.leases.take('process:third', 10_000))!
    await store.ledger.apply(resume((await row())!, other.id))
    await store.leases.release(other)
    t.equal(await store.ledger.adopt(lease.current, ['settled'], 10), 1)
    await t.rejects(payments.record(paid), { code: 'settlement_pending' })
    payments.deliver(paid, 'not_charged')
    await ended(payments, paid)
    t.match(
      await row(),
      { state: 'settled' },
      'the seller may have been asked: recovery makes it owed for good',
    )
  },
)

t.test('a process that lost its lease writes nothing more of what others have taken up', async (t) => {
  const { store, payments, presented, settler, row } = await start()
  const paid = await won(payments, presented)
  const other = (await store.leases.take('process:other', 10_000))!
  await store.ledger.apply(takeUp((await row())!, other.id))
  await t.rejects(payments.settle(paid, storedResponse), { code: 'settlement_unavailable' })
  t.strictSame(settler.transfers, [], 'nothing is sent')
  payments.deliver(paid, 'not_charged')
  await ended(payments, paid)
  t.match(await row(), { state: 'claimed', lease: other.id })
})

t.test(
  'a call that stood still never says that nothing was charged when another call has charged it',
  async (t) => {
    const database = createTestDatabase()
    const frozen = await start({ database })
    const stale = await won(frozen.payments, frozen.presented)
    const { store, payments, presented, row } = await start({ database, name: 'two' })
    await store.ledger.apply(free((await row())!, 'abandoned'))
    await t.rejects(frozen.payments.settle(stale, storedResponse), { code: 'settlement_unavailable' })
    const paid = await won(payments, presented)
    await t.rejects(frozen.payments.settle(stale, storedResponse), {
      code: 'settlement_pending',
      extra: { purchaseId: paid.purchaseId },
    })
    await payments.settle(paid, storedResponse)
    await payments.record(paid)
    await t.rejects(frozen.payments.settle(stale, storedResponse), { code: 'settlement_pending' })
    t.equal(frozen.settler.transfers.length, 0)
  },
)

for (const [lease, change] of [
  ['is over', { isHeld: false }],
  ['was renewed under the same id', { lapses: 1 }],
  // The database's clock was set, or the machine was suspended: this process's own clock does not show it.
  ['never seemed to be over', {}],
] as const)
  t.test(
    `a call that stood still, and whose lease ${lease}, is not refused as uncharged either, when the chain refuses what another call has charged`,
    async (t) => {
      const database = createTestDatabase()
      const frozen = await start({ database })
      const stale = await won(frozen.payments, frozen.presented)
      const why = { reason: 'settler_not_started', message: '', transient: true } as const
      frozen.settler.verifyWith = async () => ({ ok: false, ...why })
      // Like a settler that has checked the chain and stores nothing.
      Object.assign(frozen.settler, { settle: async () => ({ status: 'rejected', ...why }) })
      t.match(await frozen.payments.verify(stale), why, 'while the row is its own')
      t.match(await frozen.payments.settle(stale, storedResponse), why, 'while the row is its own')
      const { store, payments, presented, row } = await start({ database, name: 'two' })
      await store.ledger.apply(free((await row())!, 'abandoned'))
      const paid = await won(payments, presented)
      await payments.settle(paid, storedResponse)
      await payments.record(paid)
      Object.assign(frozen.lease, change)
      const pending = { code: 'settlement_pending', extra: { purchaseId: paid.purchaseId } }
      await t.rejects(frozen.payments.settle(stale, storedResponse), pending)
      await t.rejects(frozen.payments.verify(stale), pending)
    },
  )

for (const settlesFirst of [false, true]) {
  t.test(
    `a process that stood still does not ask the seller for what is not its own any more, charged ${settlesFirst ? 'before' : 'after'}`,
    async (t) => {
      const database = createTestDatabase()
      let polls = 0
      const frozen = await start({
        database,
        adapt: (ledger) => ({
          ...ledger,
          find(sought) {
            polls++
            return ledger.find(sought)
          },
        }),
      })
      const { payments, presented, lease, row } = frozen
      const stale = await won(payments, presented, settlesFirst)
      if (settlesFirst) {
        await payments.settle(stale, null)
        await payments.record(stale)
      }
      t.equal(payments.assertHeld(stale), undefined, 'at once, while the lease is held')
      t.equal(polls, 0)
      lease.isHeld = false
      await payments.assertHeld(stale)
      t.equal(polls, 1, 'the row is read, and nobody has moved it')
      const two = await start({ database, name: 'two' })
      const standing = (await row())!
      if (settlesFirst) await two.store.ledger.apply(owe(standing, 'never_delivered'))
      else await two.store.ledger.apply(free(standing, 'abandoned'))
      const code = settlesFirst ? 'payment_already_used' : 'settlement_unavailable'
      await t.rejects(payments.assertHeld(stale) as Promise<void>, { code })
      lease.isHeld = true
      lease.current = (await two.store.leases.take('process:anew', 10_000))!
      await t.rejects(
        payments.assertHeld(stale) as Promise<void>,
        { code },
        'nor after the lease is taken anew',
      )
      payments.deliver(stale, 'delivered', storedResponse)
      await ended(payments, stale)
      t.match(await row(), { state: settlesFirst ? 'refund_due' : 'rejected', hasResponse: false })
    },
  )
}

t.test('a clock that is set changes nothing of a call under way', async (t) => {
  const { store, lease, payments, presented, turnClock, row } = await start()
  const paid = await won(payments, presented)
  for (const ms of [600_000, -1_200_000]) {
    turnClock(ms)
    t.equal(await store.ledger.adopt(lease.current, ['claimed'], 10), 0)
    t.ok(payments.isUnderWay(paid.row))
  }
  await payments.settle(paid, storedResponse)
  await payments.record(paid)
  t.match(await row(), { state: 'settled' })
})

t.test('what was stored too late and taken up by another process is not told to be uncharged', async (t) => {
  const stored = Promise.withResolvers<void>()
  const stage = await start({
    adapt: (ledger) => ({
      ...ledger,
      async apply(change) {
        const isDone = await ledger.apply(change)
        if (change.to === 'settling') await stored.promise
        return isDone
      },
    }),
  })
  const { payments, presented, settler, row } = stage
  // Like a settler whose process was suspended for longer than a database may take.
  settler.settle = async (_payment, _terms, _identity, store) => {
    void store({ settler: 'scripted', bytes: '0x00', transaction: '0x1', sequence: '0' }).catch(() => false)
    return { status: 'rejected', reason: 'late', message: 'It was not stored in time.', transient: true }
  }
  const paid = await won(payments, presented)
  const settling = payments.settle(paid, storedResponse)
  await until(async () => (await row())?.state === 'settling')
  await landElsewhere(stage)
  stored.resolve()
  t.match(await settling, { status: 'pending', transaction: '0x1' })
  payments.deliver(paid, 'not_charged')
  await ended(payments, paid)
  t.match(await row(), { state: 'settled' })
})
