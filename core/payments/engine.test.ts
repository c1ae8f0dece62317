import { mock } from 'node:test'
import t from 'tap'
import { createMemory } from '../../adapters/memory/store/memory.ts'
import { openMemory } from '../../adapters/memory/store/openMemory.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { bring, keptAnswer } from '../../test/helpers/rows.ts'
import { createScriptedSettler, testAsset, testNetwork, testPayTo } from '../../test/helpers/settler.ts'
import { builtInAssets } from '../domain/asset.ts'
import { TollgateError } from '../errors/error.ts'
import type { Books } from '../ports/books.ts'
import { silentLog } from '../ports/log.ts'
import { createPayments } from './engine.ts'
import type { PaidCall, PaidFor, Payments, PresentedPayment } from './payments.ts'
import { free, land, owe, pend, resume, takeUp } from './rules.ts'

const key = 'ab'.repeat(32)
const away = () => new TollgateError('store_unavailable')

/** An engine of one process over a store that others may share. */
async function start({ memory = createMemory(), name = 'one', adapt = (books: Books): Books => books } = {}) {
  let nowMs = 1_800_000_000_000
  const clock = { now: () => nowMs }
  const store = openMemory({ memory, clock })
  const settler = createScriptedSettler()
  const lease = { isHeld: true, current: (await store.leases.take(`process:${name}`, 10_000))! }
  const books = adapt(store.books)
  const assets = builtInAssets.filter((asset) => asset.network === testNetwork)
  const payments = createPayments({
    ...{ books, chains: { assets }, lease, clock, log: silentLog },
    notes: { tokenHash: (id) => `hash of ${id}` },
  })
  const presented: PresentedPayment = {
    payload: { x402Version: 2, scheme: 'exact', network: testNetwork, payload: {} },
    terms: {
      ...{ scheme: 'exact', network: testNetwork, amount: '100000', asset: testAsset, payTo: testPayTo },
      ...{ maxTimeoutSeconds: 300, extra: {} },
    },
    identity: {
      ...{ key, network: testNetwork, asset: testAsset, payer: '0x2', nonce: 'n', payTo: testPayTo },
      ...{ amountAtomic: 100_000n, validBeforeMs: nowMs + 300_000 },
    },
    ...{ settler, unclaimable: null },
  }
  return {
    ...{ memory, store, settler, lease, payments, presented },
    row: () => store.books.find(key),
    turnClock: (ms: number) => {
      nowMs += ms
    },
  }
}

const call = (settlesFirst = false): PaidFor => ({
  ...{ linkId: 'link', storeId: 'store', requestHash: 'hash', settlesFirst },
})

async function won(payments: Payments, presented: PresentedPayment, settlesFirst = false): Promise<PaidCall> {
  const claimed = await payments.claim(presented, call(settlesFirst))
  if (!('won' in claimed)) throw new Error(`Expected to win, it is ${claimed.lost.state}.`)
  return claimed.won
}

const ended = (payments: Payments, { row }: PaidCall) => until(async () => !payments.isUnderWay(row))

t.test('a call that is charged afterwards: claimed, settling, settled, delivered', async (t) => {
  const { store, payments, presented, settler, row } = await start()
  const paid = await won(payments, presented)
  t.match(await row(), { state: 'claimed', purchaseId: paid.purchaseId, scheme: 'exact' })
  t.match(await payments.verify(paid), { ok: true })
  t.equal(settler.held, 1)
  t.match(await payments.settle(paid, keptAnswer), { status: 'settled', chargedAtomic: 100_000n })
  t.match(await row(), { state: 'settling', hasAnswer: true })
  await payments.record(paid)
  t.match(await row(), { state: 'settled', chargedAtomic: 100_000n, event: '0' })
  t.ok(payments.isUnderWay(paid.row))
  payments.deliver(paid, 'delivered')
  await ended(payments, paid)
  t.match(await row(), { state: 'delivered' })
  t.match(await store.purchases.ledgerCheck(), { purchases: 1, broken: [], unbalanced: [] })
  t.equal(settler.held, 0)
})

t.test('whoever loses a claim reads how it stands, and writes nothing', async (t) => {
  let writes = 0
  const { payments, presented } = await start({
    adapt: (books) => ({
      ...books,
      apply(change) {
        writes++
        return books.apply(change)
      },
    }),
  })
  await won(payments, presented)
  const lost = await payments.claim(presented, call())
  t.match(lost, { lost: { state: 'claimed', hasAnswer: false } })
  t.equal(writes, 0)
})

t.test('a place among the payments on their way is given back however the call ends', async (t) => {
  const ways: Record<string, (payments: Payments, paid: PaidCall) => Promise<unknown>> = {
    'the seller fails': async (payments, paid) => payments.deliver(paid, 'not_charged'),
    'it settles': async (payments, paid) => {
      await payments.settle(paid, keptAnswer)
      payments.deliver(paid, 'not_charged')
    },
  }
  for (const [name, end] of Object.entries(ways)) {
    const { payments, presented, settler } = await start()
    const paid = await won(payments, presented)
    await payments.verify(paid)
    t.equal(settler.held, 1)
    await end(payments, paid)
    t.equal(settler.held, 0, name)
  }
})

t.test('no more than was authorised is asked for, and less is booked as less', async (t) => {
  const { store, payments, presented, settler, row } = await start()
  const paid = await won(payments, presented)
  await t.rejects(payments.settle(paid, keptAnswer, 100_001n), /at most the 100000/)
  t.equal(settler.calls.settle, 0)
  settler.settleWith = async (transfer) => ({
    ...{ status: 'settled', transaction: transfer(), event: '4', block: 1, chargedAtomic: 40_000n },
  })
  t.match(await payments.settle(paid, keptAnswer, 40_000n), { chargedAtomic: 40_000n })
  await payments.record(paid)
  t.match(await row(), { amountAtomic: 100_000n, chargedAtomic: 40_000n, event: '4' })
  t.match(await store.purchases.find(paid.purchaseId), { amountAtomic: 40_000n, feeAtomic: 2_000n })
})

/** What a call does from its claim on; what it throws is the buyer's answer. */
async function wholeCall(
  payments: Payments,
  presented: PresentedPayment,
  settlesFirst: boolean,
): Promise<PaidCall | undefined> {
  let paid: PaidCall | undefined
  let isCharged = false
  try {
    paid = await won(payments, presented, settlesFirst)
    await payments.verify(paid)
    const end = await payments.settle(paid, settlesFirst ? null : keptAnswer)
    if (end.status !== 'settled') throw new Error(end.status)
    await payments.record(paid)
    isCharged = true
    payments.deliver(paid, 'delivered', settlesFirst ? keptAnswer : undefined)
  } catch {
    if (paid !== undefined) payments.deliver(paid, isCharged ? 'unsent' : 'not_charged')
  }
  return paid
}

for (const settlesFirst of [false, true]) {
  for (const when of ['before', 'after'] as const) {
    for (let nth = 0; nth < 4; nth++) {
      const what = `write ${nth} fails ${when} it is done, charged ${settlesFirst ? 'first' : 'afterwards'}`
      t.test(`${what}: nothing charged is left to nobody`, async (t) => {
        let writes = 0
        const failing = async <T>(write: () => Promise<T>): Promise<T> => {
          const fails = writes++ === nth
          if (fails && when === 'before') throw away()
          const result = await write()
          if (fails) throw away()
          return result
        }
        const { store, payments, presented, settler, row } = await start({
          adapt: (books) => ({
            ...books,
            claim: (request) => failing(() => books.claim(request)),
            apply: (change) => failing(() => books.apply(change)),
          }),
        })
        const paid = await wholeCall(payments, presented, settlesFirst)
        if (paid !== undefined) await ended(payments, paid)
        // The claim whose answer was lost is found and freed; one that never came is not there.
        else await until(async () => ((await row())?.state ?? 'rejected') === 'rejected')
        const record = await row()
        const due = await store.books.due({ states: ['settling', 'pending'], limit: 10 })
        const isWithRecovery = due.some((one) => one.row === record?.row)
        const state = record?.state ?? 'rejected'
        t.ok(
          ['rejected', 'delivered', 'refund_due'].includes(state) ||
            (state === 'settled' && record!.hasAnswer) ||
            isWithRecovery,
          `it is ${state}`,
        )
        t.equal(settler.transfers.length > 0, state !== 'rejected', 'charged or free')
        t.equal(settler.held, 0)
        t.match(await store.purchases.ledgerCheck(), { broken: [], unbalanced: [] })
      })
    }
  }
}

t.test('a settlement that was stored and never sent frees the payment, whoever hears of it', async (t) => {
  const { payments, presented, settler, row } = await start()
  settler.settleWith = async () => ({ status: 'rejected', reason: 'refused', message: 'no' })
  const paid = await won(payments, presented)
  t.match(await payments.settle(paid, keptAnswer), { status: 'rejected', reason: 'refused' })
  t.match(await row(), { state: 'rejected', hasAnswer: false, attempt: null })
  payments.deliver(paid, 'not_charged')
  await ended(payments, paid)
  await won(payments, presented)
})

t.test('what is stored too late to be sent is free as soon as it is stored', async (t) => {
  for (const isOverBefore of [true, false]) {
    const stored = Promise.withResolvers<void>()
    const { payments, presented, settler, row } = await start({
      adapt: (books) => ({
        ...books,
        async apply(change) {
          const isDone = await books.apply(change)
          if (change.to === 'settling') await stored.promise
          return isDone
        },
      }),
    })
    // As a settler does whose process stood still for longer than a store may take.
    settler.settle = async (_payment, _terms, _identity, store) => {
      void store({ settler: 'scripted', bytes: '0x00', transaction: '0x1', sequence: '0' }).catch(() => false)
      return { status: 'rejected', reason: 'late', message: 'It was not stored in time.', transient: true }
    }
    const paid = await won(payments, presented)
    t.match(await payments.settle(paid, keptAnswer), { status: 'rejected', reason: 'late' })
    if (isOverBefore) payments.deliver(paid, 'not_charged')
    stored.resolve()
    if (!isOverBefore) payments.deliver(paid, 'not_charged')
    await ended(payments, paid)
    t.match(await row(), { state: 'rejected', hasAnswer: false, attempt: null })
    await won(payments, presented)
  }
})

t.test('a buyer whose payment was paid back meanwhile hears that, and nothing is handed over', async (t) => {
  const { store, payments, presented, row } = await start()
  const paid = await won(payments, presented)
  await payments.settle(paid, keptAnswer)
  const { books } = store
  const other = (await store.leases.take('process:other', 10_000))!
  // As the recovery of another process would: it takes the row up, books it, and the seller refunds at once.
  await books.apply(takeUp((await row())!, other.id))
  const sale = {
    payment: (await row())!,
    landed: { transaction: '0xaa', event: '0', block: 1, chargedAtomic: 100_000n },
    ...{ asset: builtInAssets.find((one) => one.network === testNetwork)!, reviewTokenHash: 'h', atMs: 1 },
  }
  const landed = land((await row())!, sale)
  await books.apply(landed)
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
  const { store, payments, presented, row } = await start()
  const paid = await won(payments, presented)
  await payments.settle(paid, keptAnswer)
  const other = (await store.leases.take('process:other', 10_000))!
  await store.books.apply(takeUp((await row())!, other.id))
  await store.books.apply(
    land((await row())!, {
      payment: (await row())!,
      landed: { transaction: '0xaa', event: '0', block: 1, chargedAtomic: 100_000n },
      ...{ asset: builtInAssets.find((one) => one.network === testNetwork)!, reviewTokenHash: 'h', atMs: 1 },
    }),
  )
  await payments.record(paid)
  payments.deliver(paid, 'delivered')
  await ended(payments, paid)
  t.match(await row(), { state: 'delivered' })
})

/** What recovery and another process make of a payment whose own process stands still. */
async function landElsewhere({ store, row }: Awaited<ReturnType<typeof start>>): Promise<void> {
  const other = (await store.leases.take('process:other', 10_000))!
  await store.books.apply(takeUp((await row())!, other.id))
  await store.books.apply(
    land((await row())!, {
      payment: (await row())!,
      landed: { transaction: '0xaa', event: '0', block: 1, chargedAtomic: 100_000n },
      ...{ asset: builtInAssets.find((one) => one.network === testNetwork)!, reviewTokenHash: 'h', atMs: 1 },
    }),
  )
}

t.test(
  'charged first, and answered by another process meanwhile: the seller is not asked again',
  async (t) => {
    const memory = createMemory()
    const frozen = await start({ memory })
    const paid = await won(frozen.payments, frozen.presented, true)
    await frozen.payments.settle(paid, null)
    await landElsewhere(frozen)
    const { payments, presented, row } = await start({ memory, name: 'two' })
    const resumed = (await payments.resume((await row())!, presented, call(true)))!
    await t.rejects(frozen.payments.record(paid), { code: 'settlement_pending' }, 'it is asked now')
    payments.deliver(resumed, 'delivered', keptAnswer)
    await ended(payments, resumed)
    await t.rejects(frozen.payments.record(paid), { code: 'settlement_pending' }, 'it has answered')
    frozen.payments.deliver(paid, 'not_charged')
    await ended(frozen.payments, paid)
    t.match(await row(), { state: 'delivered', hasAnswer: true })
  },
)

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
  payments.deliver(resumed, 'delivered', keptAnswer)
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
    await store.books.apply(resume((await row())!, other.id))
    await store.leases.release(other)
    t.equal(await store.books.adopt(lease.current, ['settled'], 10), 1)
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
  await store.books.apply(takeUp((await row())!, other.id))
  await t.rejects(payments.settle(paid, keptAnswer), { code: 'settlement_unavailable' })
  t.strictSame(settler.transfers, [], 'nothing is sent')
  payments.deliver(paid, 'not_charged')
  await ended(payments, paid)
  t.match(await row(), { state: 'claimed', lease: other.id })
})

t.test(
  'a call that stood still never says that nothing was charged when another call has charged it',
  async (t) => {
    const memory = createMemory()
    const frozen = await start({ memory })
    const stale = await won(frozen.payments, frozen.presented)
    const { store, payments, presented, row } = await start({ memory, name: 'two' })
    await store.books.apply(free((await row())!, 'abandoned'))
    await t.rejects(frozen.payments.settle(stale, keptAnswer), { code: 'settlement_unavailable' })
    const paid = await won(payments, presented)
    await t.rejects(frozen.payments.settle(stale, keptAnswer), {
      code: 'settlement_pending',
      extra: { purchaseId: paid.purchaseId },
    })
    await payments.settle(paid, keptAnswer)
    await payments.record(paid)
    await t.rejects(frozen.payments.settle(stale, keptAnswer), { code: 'settlement_pending' })
    t.equal(frozen.settler.transfers.length, 0)
  },
)

for (const settlesFirst of [false, true]) {
  t.test(
    `a process that stood still does not ask the seller for what is not its own any more, charged ${settlesFirst ? 'before' : 'after'}`,
    async (t) => {
      const memory = createMemory()
      let looks = 0
      const frozen = await start({
        memory,
        adapt: (books) => ({
          ...books,
          find(sought) {
            looks++
            return books.find(sought)
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
      t.equal(looks, 0)
      lease.isHeld = false
      await payments.assertHeld(stale)
      t.equal(looks, 1, 'the row is read, and nobody has moved it')
      const two = await start({ memory, name: 'two' })
      const standing = (await row())!
      if (settlesFirst) await two.store.books.apply(owe(standing, 'never_delivered'))
      else await two.store.books.apply(free(standing, 'abandoned'))
      const code = settlesFirst ? 'payment_already_used' : 'settlement_unavailable'
      await t.rejects(payments.assertHeld(stale) as Promise<void>, { code })
      lease.isHeld = true
      lease.current = (await two.store.leases.take('process:anew', 10_000))!
      await t.rejects(
        payments.assertHeld(stale) as Promise<void>,
        { code },
        'nor after the lease is taken anew',
      )
      payments.deliver(stale, 'delivered', keptAnswer)
      await ended(payments, stale)
      t.match(await row(), { state: settlesFirst ? 'refund_due' : 'rejected', hasAnswer: false })
    },
  )
}

t.test('a clock that is set changes nothing of a call under way', async (t) => {
  const { store, lease, payments, presented, turnClock, row } = await start()
  const paid = await won(payments, presented)
  for (const ms of [600_000, -1_200_000]) {
    turnClock(ms)
    t.equal(await store.books.adopt(lease.current, ['claimed'], 10), 0)
    t.ok(payments.isUnderWay(paid.row))
  }
  await payments.settle(paid, keptAnswer)
  await payments.record(paid)
  t.match(await row(), { state: 'settled' })
})

t.test(
  'a payment that landed late is served once its buyer is back, and owed again where that fails',
  async (t) => {
    for (const fails of ['never', 'before', 'after'] as const) {
      let isFailing = false
      const { store, payments, presented, row } = await start({
        adapt: (books) => ({
          ...books,
          async apply(change) {
            if (!isFailing || change.to !== 'settled') return books.apply(change)
            if (fails === 'before') throw away()
            const isDone = await books.apply(change)
            if (fails === 'after') throw away()
            return isDone
          },
        }),
      })
      await bring(store.books, {
        ...{ ...presented.identity, state: 'refund_due', reason: 'landed_late', answer: null },
        ...{ linkId: 'link', storeId: 'store' },
      })
      isFailing = true
      const resuming = payments.resume((await row())!, presented, call(true))
      if (fails === 'never') {
        const paid = (await resuming)!
        t.match(await row(), { state: 'settled' })
        t.equal(await payments.resume((await row())!, presented, call(true)), undefined, 'once')
        payments.deliver(paid, 'delivered', keptAnswer)
        await ended(payments, paid)
        t.match(await row(), { state: 'delivered', hasAnswer: true })
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
  await payments.settle(paid, keptAnswer)
  await payments.record(paid)
  payments.deliver(paid, 'unsent')
  await ended(payments, paid)
  t.match(await row(), { state: 'settled', hasAnswer: true })
  payments.deliver(paid, 'delivered')
  await until(async () => (await row())?.state === 'delivered')
})

t.test('who waits for a payment reads, shares what is read, and hears of this process at once', async (t) => {
  let reads = 0
  const { memory, payments, presented, row } = await start({
    adapt: (books) => ({
      ...books,
      find(one) {
        reads++
        return books.find(one)
      },
    }),
  })
  const paid = await won(payments, presented)
  const seen = (await row())!
  const waiting = Array.from({ length: 64 }, () => payments.changed(seen, 5_000))
  await payments.settle(paid, keptAnswer)
  t.ok((await Promise.all(waiting)).every((record) => record?.state === 'settling'))
  t.ok(reads <= 3, `${reads} reads`)

  // Another process moves it: found by looking.
  const other = await start({ memory, name: 'two' })
  const settling = (await row())!
  const late = payments.changed(settling, 5_000)
  t.ok(await other.store.books.apply(pend(settling, 'why')))
  t.match(await late, { state: 'pending' })
  reads = 0
  t.equal(await payments.changed((await row())!, 700), undefined, 'the time is over')
  t.ok(reads <= 5, `${reads} looks in 700 ms`)
})

for (const during of ['the purchase is written', 'it is noted that nothing was sent'] as const) {
  t.test(`a store that is away for hours while ${during} leaves nothing to nobody`, async (t) => {
    let isAway = false
    const { payments, presented, settler, row } = await start({
      adapt: (books) => ({
        ...books,
        apply: (change) => (isAway ? Promise.reject(away()) : books.apply(change)),
      }),
    })
    const isCharged = during === 'the purchase is written'
    settler.settleWith = async () => {
      isAway = true
      return isCharged ? undefined : { status: 'rejected', reason: 'refused', message: 'no' }
    }
    const paid = await won(payments, presented)
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())
    const end = await payments.settle(paid, keptAnswer)
    if (end.status === 'settled') await t.rejects(payments.record(paid), { code: 'settlement_pending' })
    payments.deliver(paid, 'not_charged')
    for (let minutes = 0; minutes < 180; minutes++) {
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
      mock.timers.tick(60_000)
    }
    t.match(await row(), { state: 'settling' })
    isAway = false
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    mock.timers.tick(60_000)
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    t.match(await row(), { state: isCharged ? 'settled' : 'rejected' })
    t.notOk(payments.isUnderWay(paid.row))
  })
}

t.test(
  'of two who take up the same payment that landed late, only the one who works on it ends it',
  async (t) => {
    let fails = 0
    const { store, payments, presented, row } = await start({
      adapt: (books) => ({
        ...books,
        async apply(change) {
          if (change.to === 'settled' && change.from.includes('refund_due') && fails++ === 1) throw away()
          return books.apply(change)
        },
      }),
    })
    await bring(store.books, {
      ...{ ...presented.identity, state: 'refund_due', reason: 'landed_late', answer: null },
      ...{ linkId: 'link', storeId: 'store' },
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
    adapt: (books) => ({
      ...books,
      async apply(change) {
        if (change.to === 'delivered' && ++tries < 3) throw away()
        return books.apply(change)
      },
    }),
  })
  const paid = await won(payments, presented)
  await payments.settle(paid, keptAnswer)
  await payments.record(paid)
  payments.deliver(paid, 'unsent')
  await ended(payments, paid)
  t.match(await row(), { state: 'settled', lease: null }, 'it is nobody’s until its buyer comes')
  for (let i = 0; i < 100; i++) payments.deliver({ ...paid }, 'delivered')
  await until(async () => (await row())?.state === 'delivered')
  t.equal(tries, 3)
  t.match(await store.purchases.ledgerCheck(), { purchases: 1, broken: [], unbalanced: [] })
})

t.test(
  'a claim that lands after its call has given up becomes the recovery’s, and no running call does',
  async (t) => {
    let land = async (): Promise<unknown> => undefined
    const late = await start({
      adapt: (books) => ({
        ...books,
        find: async () => undefined,
        async claim(request) {
          land = () => books.claim(request)
          throw away()
        },
      }),
    })
    await t.rejects(late.payments.claim(late.presented, call()), { code: 'store_unavailable' })
    await land()
    t.equal(await late.payments.leaveStrays(), 0, 'it may have been won this moment')
    t.equal(await late.payments.leaveStrays(), 1)
    t.match(await late.store.books.due({ states: ['claimed'], limit: 9 }), [{ lease: 0 }])
    const other = (await late.store.leases.take('process:other', 10_000))!
    t.equal(await late.store.books.adopt(other, ['claimed'], 9), 1)

    const { payments, presented, row } = await start()
    const paid = await won(payments, presented)
    for (let i = 0; i < 3; i++) t.equal(await payments.leaveStrays(), 0)
    await payments.settle(paid, keptAnswer)
    for (let i = 0; i < 3; i++) t.equal(await payments.leaveStrays(), 0)
    await payments.record(paid)
    payments.deliver(paid, 'unsent')
    await ended(payments, paid)
    for (let i = 0; i < 3; i++) t.equal(await payments.leaveStrays(), 0)
    t.match(await row(), { state: 'settled', hasAnswer: true })
  },
)

t.test(
  'who comes back with an open payment has it looked up now; a hundred who do cost one write in two seconds',
  async (t) => {
    let writes = 0
    const { store, payments, presented, settler, row } = await start({
      adapt: (books) => ({
        ...books,
        putOff(rows) {
          writes++
          return books.putOff(rows)
        },
      }),
    })
    const paid = await won(payments, presented)
    settler.settleWith = async () => ({ status: 'pending', transaction: '0x1', reason: 'not_seen' })
    await payments.settle(paid, keptAnswer)
    payments.deliver(paid, 'not_charged')
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())
    const due = () => store.books.due({ states: ['pending'], limit: 10 })
    const { row: number, state, tries } = (await row())!
    await store.books.putOff([{ row: number, state, afterMs: 60_000, tries: tries + 5, reason: 'not yet' }])
    t.same(await due(), [])
    const comeBack = () => Promise.all(Array.from({ length: 100 }, () => payments.claim(presented, call())))
    for (const { lost } of (await comeBack()) as { lost?: unknown }[]) t.match(lost, { state: 'pending' })
    t.match(await due(), [{ key, tries: 5, dueReason: 'not yet' }])
    await payments.find(key)
    t.equal(writes, 1)
    mock.timers.tick(2_000)
    await comeBack()
    t.equal(writes, 2)
  },
)
