import { mock } from 'node:test'
import t from 'tap'
import { away, call, ended, key, start, won } from '../../test/helpers/core/payments/engine.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { bring, storedResponse } from '../../test/helpers/rows.ts'
import { silentLog } from '../ports/log.ts'
import { Background } from './background.ts'

t.test(
  'a payment that landed late is served once its buyer is back, and owed again where that fails',
  async (t) => {
    for (const fails of ['never', 'before', 'after'] as const) {
      let isFailing = false
      const { store, payments, presented, row } = await start({
        adapt: (ledger) => ({
          ...ledger,
          async apply(change) {
            if (!isFailing || change.to !== 'settled') return ledger.apply(change)
            if (fails === 'before') throw away()
            const isDone = await ledger.apply(change)
            if (fails === 'after') throw away()
            return isDone
          },
        }),
      })
      await bring(store.ledger, {
        ...presented.identity,
        state: 'refund_due',
        reason: 'landed_late',
        response: null,
        linkId: 'link',
        storeId: 'store',
      })
      isFailing = true
      const resuming = payments.resume((await row())!, presented, call(true))
      if (fails === 'never') {
        const paid = (await resuming)!
        t.match(await row(), { state: 'settled' })
        t.equal(await payments.resume((await row())!, presented, call(true)), undefined, 'once')
        payments.deliver(paid, 'delivered', storedResponse)
        await ended(payments, paid)
        t.match(await row(), { state: 'delivered', hasResponse: true })
      } else {
        await t.rejects(resuming, { code: 'store_unavailable' })
        await until(async () => (await row())?.state === 'refund_due')
        t.match(await row(), { errorReason: 'landed_late' })
      }
    }
  },
)

t.test('an answer that somebody else was handed is delivered, also after its call has ended', async (t) => {
  const { payments, presented, row } = await start()
  const paid = await won(payments, presented)
  await payments.settle(paid, storedResponse)
  await payments.record(paid)
  payments.deliver(paid, 'unsent')
  await ended(payments, paid)
  t.match(await row(), { state: 'settled', hasResponse: true })
  payments.deliver(paid, 'delivered')
  await until(async () => (await row())?.state === 'delivered')
})

for (const during of ['the purchase is written', 'it is noted that nothing was sent'] as const) {
  t.test(`a store that is away for hours while ${during} leaves nothing to nobody`, async (t) => {
    let isUnavailable = false
    const { payments, presented, settler, row } = await start({
      adapt: (ledger) => ({
        ...ledger,
        apply: (change) => (isUnavailable ? Promise.reject(away()) : ledger.apply(change)),
      }),
    })
    const isCharged = during === 'the purchase is written'
    settler.settleWith = async () => {
      isUnavailable = true
      return isCharged ? undefined : { status: 'rejected', reason: 'refused', message: 'no' }
    }
    const paid = await won(payments, presented)
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())
    const end = await payments.settle(paid, storedResponse)
    if (end.status === 'settled') await t.rejects(payments.record(paid), { code: 'settlement_pending' })
    payments.deliver(paid, 'not_charged')
    for (let minutes = 0; minutes < 180; minutes++) {
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
      mock.timers.tick(60_000)
    }
    t.match(await row(), { state: 'settling' })
    isUnavailable = false
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    mock.timers.tick(60_000)
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    t.match(await row(), { state: isCharged ? 'settled' : 'rejected' })
    t.notOk(payments.isUnderWay(paid.row))
  })
}

t.test(
  'what waits for the store is done a second after its return, and one asks for all meanwhile',
  async (t) => {
    let isUnavailable = true
    let tries = 0
    const done: number[] = []
    const background = new Background({
      ledger: {} as never,
      calls: { has: () => true },
      watch: { notify() {} },
      lease: { current: { id: 1, name: 'one' } },
      log: silentLog,
    })
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())
    const settle = async () => {
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    }
    for (let n = 0; n < 100; n++) {
      void background.insist(`purchase ${n}`, async () => {
        tries++
        if (isUnavailable) throw away()
        done.push(n)
      })
    }
    await settle()
    const seconds = 600
    for (let second = 0; second < seconds; second++) {
      mock.timers.tick(1_000)
      await settle()
    }
    t.equal(tries, 100 + seconds, 'a store that is away is asked once a second, however much waits for it')
    isUnavailable = false
    mock.timers.tick(1_000)
    await settle()
    t.strictSame(new Set(done).size, 100)
    t.equal(done.length, 100, 'each once')
    t.equal(tries, 100 + seconds + 100)
    mock.timers.tick(600_000)
    await settle()
    t.equal(tries, 100 + seconds + 100, 'and nothing is asked any more')
  },
)

t.test(
  'of two who take up the same payment that landed late, only the one who works on it ends it',
  async (t) => {
    let fails = 0
    const { store, payments, presented, row } = await start({
      adapt: (ledger) => ({
        ...ledger,
        async apply(change) {
          if (change.to === 'settled' && change.from.includes('refund_due') && fails++ === 1) throw away()
          return ledger.apply(change)
        },
      }),
    })
    await bring(store.ledger, {
      ...presented.identity,
      state: 'refund_due',
      reason: 'landed_late',
      response: null,
      linkId: 'link',
      storeId: 'store',
    })
    const seen = (await row())!
    const [first, second] = await Promise.allSettled([
      payments.resume(seen, presented, call(true)),
      payments.resume(seen, presented, call(true)),
    ])
    t.equal(first.status, 'fulfilled')
    t.ok(first.status === 'fulfilled' && first.value !== undefined)
    await new Promise((resolve) => setTimeout(resolve, 50))
    t.match(await row(), { state: 'settled' }, 'the seller is asked for it')
    t.ok(second)
  },
)

t.test('an answer that is handed out again and again, while the store is away, is one note', async (t) => {
  let tries = 0
  const { store, payments, presented, row } = await start({
    adapt: (ledger) => ({
      ...ledger,
      async apply(change) {
        if (change.to === 'delivered' && ++tries < 3) throw away()
        return ledger.apply(change)
      },
    }),
  })
  const paid = await won(payments, presented)
  await payments.settle(paid, storedResponse)
  await payments.record(paid)
  payments.deliver(paid, 'unsent')
  await ended(payments, paid)
  t.match(await row(), { state: 'settled', lease: null }, 'it is nobody’s until its buyer comes')
  for (let i = 0; i < 100; i++) payments.deliver({ ...paid }, 'delivered')
  await until(async () => (await row())?.state === 'delivered')
  t.equal(tries, 3)
  t.match(await store.purchases.ledgerCheck(), {
    purchases: 1,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test(
  'a claim that lands after its call has given up becomes the recovery’s, and no running call does',
  async (t) => {
    let land = async (): Promise<unknown> => undefined
    const late = await start({
      adapt: (ledger) => ({
        ...ledger,
        find: async () => undefined,
        async claim(request) {
          land = () => ledger.claim(request)
          throw away()
        },
      }),
    })
    await t.rejects(late.payments.claim(late.presented, call()), { code: 'store_unavailable' })
    await land()
    t.equal(await late.payments.abandonOrphans(), 0, 'it may have been won this moment')
    t.equal(await late.payments.abandonOrphans(), 1)
    t.match(await late.store.ledger.due({ states: ['claimed'], limit: 9 }), [{ lease: 0 }])
    const other = (await late.store.leases.take('process:other', 10_000))!
    t.equal(await late.store.ledger.adopt(other, ['claimed'], 9), 1)

    const { payments, presented, row } = await start()
    const paid = await won(payments, presented)
    for (let i = 0; i < 3; i++) t.equal(await payments.abandonOrphans(), 0)
    await payments.settle(paid, storedResponse)
    for (let i = 0; i < 3; i++) t.equal(await payments.abandonOrphans(), 0)
    await payments.record(paid)
    payments.deliver(paid, 'unsent')
    await ended(payments, paid)
    for (let i = 0; i < 3; i++) t.equal(await payments.abandonOrphans(), 0)
    t.match(await row(), { state: 'settled', hasResponse: true })
  },
)

t.test(
  'who comes back with an open payment has it looked up now; a hundred who do cost one write in two seconds',
  async (t) => {
    let writes = 0
    const { store, payments, presented, settler, row } = await start({
      adapt: (ledger) => ({
        ...ledger,
        putOff(rows) {
          writes++
          return ledger.putOff(rows)
        },
      }),
    })
    const paid = await won(payments, presented)
    settler.settleWith = async () => ({ status: 'pending', transaction: '0x1', reason: 'not_seen' })
    await payments.settle(paid, storedResponse)
    payments.deliver(paid, 'not_charged')
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())
    const due = () => store.ledger.due({ states: ['pending'], limit: 10 })
    const { row: number, state, tries } = (await row())!
    await store.ledger.putOff([{ row: number, state, afterMs: 60_000, tries: tries + 5, reason: 'not yet' }])
    t.same(await due(), [])
    const retryPayment = () =>
      Promise.all(Array.from({ length: 100 }, () => payments.claim(presented, call())))
    for (const { lost } of (await retryPayment()) as { lost?: unknown }[]) t.match(lost, { state: 'pending' })
    t.match(await due(), [{ key, tries: 5, dueReason: 'not yet' }])
    await payments.find(key)
    t.equal(writes, 1)
    mock.timers.tick(2_000)
    await retryPayment()
    t.equal(writes, 2)
  },
)
