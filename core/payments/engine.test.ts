import t from 'tap'
import { away, call, ended, landElsewhere, start, won } from '../../test/helpers/core/payments/engine.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { storedResponse } from '../../test/helpers/rows.ts'
import { scriptedSettled } from '../../test/helpers/settler.ts'
import type { PaidCall, Payments, PresentedPayment } from './payments.ts'
import { pend } from './rules.ts'

t.test('a call that is charged afterwards: claimed, settling, settled, delivered', async (t) => {
  const { store, payments, presented, settler, row } = await start()
  const paid = await won(payments, presented)
  t.match(await row(), { state: 'claimed', purchaseId: paid.purchaseId, scheme: 'exact' })
  t.match(await payments.verify(paid), { ok: true })
  t.equal(settler.held, 1)
  t.match(await payments.settle(paid, storedResponse), { status: 'settled', chargedAtomic: 100_000n })
  t.match(await row(), { state: 'settling', hasResponse: true })
  await payments.record(paid)
  t.match(await row(), { state: 'settled', chargedAtomic: 100_000n, event: '0' })
  t.ok(payments.isUnderWay(paid.row))
  payments.deliver(paid, 'delivered')
  await ended(payments, paid)
  t.match(await row(), { state: 'delivered' })
  t.match(await store.purchases.ledgerCheck(), {
    purchases: 1,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
  t.equal(settler.held, 0)
})

t.test('whoever loses a claim reads how it stands, and writes nothing', async (t) => {
  let writes = 0
  const { payments, presented } = await start({
    adapt: (ledger) => ({
      ...ledger,
      apply(change) {
        writes++
        return ledger.apply(change)
      },
    }),
  })
  await won(payments, presented)
  const lost = await payments.claim(presented, call())
  t.match(lost, { lost: { state: 'claimed', hasResponse: false } })
  t.equal(writes, 0)
})

t.test(
  'a payment is claimed if the payment with its identifier was refused right before it was read',
  async (t) => {
    let reads = 0
    const { store, payments, presented, row } = await start({
      adapt: (ledger) => ({
        ...ledger,
        async claim(request) {
          const result = await ledger.claim(request)
          if (result.won || request.key === presented.identity.key || reads++ > 0) return result
          const { purchaseId, row } = result.record
          const freed = { row, purchaseId, from: ['claimed'], lease: null, to: 'rejected' } as const
          await ledger.apply({ ...freed, dueInMs: null, durability: 'visible' })
          return { won: false, record: (await ledger.find(result.record.key))! }
        },
      }),
    })
    const payload = { ...presented.payload, identifier: 'an-identifier-0123456789' }
    await won(payments, { ...presented, payload })
    const other = { ...presented, payload, identity: { ...presented.identity, key: 'cd'.repeat(32) } }
    await won(payments, other)
    t.match(await row(), { state: 'rejected' })
    t.match(await store.ledger.find(other.identity.key), { state: 'claimed' })
  },
)

t.test('a place among the payments on their way is given back however the call ends', async (t) => {
  const ways: Record<string, (payments: Payments, paid: PaidCall) => Promise<unknown>> = {
    'the seller fails': async (payments, paid) => payments.deliver(paid, 'not_charged'),
    'it settles': async (payments, paid) => {
      await payments.settle(paid, storedResponse)
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
  const paid = await won(payments, byUse(presented))
  await t.rejects(payments.settle(paid, storedResponse, 100_001n), /at most the 100000/)
  t.equal(settler.calls.settle, 0)
  settler.settleWith = async (transfer) => {
    t.match(await row(), { state: 'settling', chargedAtomic: 40_000n }, 'on disk before it is sent')
    return { status: 'settled', transaction: transfer(), event: '4', block: 1, chargedAtomic: 40_000n }
  }
  t.match(await payments.settle(paid, storedResponse, 40_000n), { chargedAtomic: 40_000n })
  await payments.record(paid)
  t.match(await row(), { amountAtomic: 100_000n, chargedAtomic: 40_000n, event: '4' })
  t.match(await store.purchases.find(paid.purchaseId), { amountAtomic: 40_000n, feeAtomic: 2_000n })
})

t.test('a payment by exact is charged as it was signed', async (t) => {
  const { payments, presented, settler } = await start()
  const paid = await won(payments, presented)
  await t.rejects(
    payments.settle(paid, storedResponse, 40_000n),
    /Expected to charge 100000 by the scheme exact/,
  )
  t.equal(settler.calls.settle, 0)
  t.match(await payments.settle(paid, storedResponse, 100_000n), { status: 'settled' })
})

t.test(
  'a call that costs nothing is sold without a transaction, and its payment buys nothing else',
  async (t) => {
    const { store, payments, presented, settler, row } = await start()
    const paid = await won(payments, byUse(presented))
    await payments.verify(paid)
    const end = await payments.settle(paid, storedResponse, 0n)
    t.strictSame(end, { status: 'settled', transaction: null, chargedAtomic: 0n })
    await payments.record(paid)
    t.equal(settler.calls.settle, 0)
    t.match(await row(), { state: 'settled', chargedAtomic: 0n, transaction: null, hasResponse: true })
    payments.deliver(paid, 'delivered')
    await ended(payments, paid)
    t.equal(settler.held, 0)
    t.match(await row(), { state: 'delivered' })
    t.match(await payments.claim(byUse(presented), call()), {
      lost: { state: 'delivered', chargedAtomic: 0n },
    })
    t.match(await store.purchases.find(paid.purchaseId), { amountAtomic: 0n, feeAtomic: 0n, txHash: null })
    t.match(await store.purchases.ledgerCheck(), {
      purchases: 1,
      broken: { length: 0 },
      unbalanced: { length: 0 },
    })
  },
)

/** The payment as one that allows a charge of at most its amount. */
const byUse = (presented: PresentedPayment): PresentedPayment => ({
  ...presented,
  terms: { ...presented.terms, scheme: 'upto' },
})

/** Everything that a call does from its claim on; what it throws is the buyer's response. */
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
    const end = await payments.settle(paid, settlesFirst ? null : storedResponse)
    if (end.status !== 'settled') throw new Error(end.status)
    await payments.record(paid)
    isCharged = true
    payments.deliver(paid, 'delivered', settlesFirst ? storedResponse : undefined)
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
          adapt: (ledger) => ({
            ...ledger,
            claim: (request) => failing(() => ledger.claim(request)),
            apply: (change) => failing(() => ledger.apply(change)),
          }),
        })
        const paid = await wholeCall(payments, presented, settlesFirst)
        if (paid !== undefined) await ended(payments, paid)
        // A claim whose response was lost is found and freed; a claim that never arrived does not exist.
        else await until(async () => ((await row())?.state ?? 'rejected') === 'rejected')
        const record = await row()
        const due = await store.ledger.due({ states: ['settling', 'pending'], limit: 10 })
        const isWithRecovery = due.some((one) => one.row === record?.row)
        const state = record?.state ?? 'rejected'
        t.ok(
          ['rejected', 'delivered', 'refund_due'].includes(state) ||
            (state === 'settled' && record!.hasResponse) ||
            isWithRecovery,
          `it is ${state}`,
        )
        t.equal(settler.transfers.length > 0, state !== 'rejected', 'charged or free')
        t.equal(settler.held, 0)
        t.match(await store.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
      })
    }
  }
}

t.test('a settlement that was stored and never sent frees the payment, whoever hears of it', async (t) => {
  const { payments, presented, settler, row } = await start()
  settler.settleWith = async () => ({ status: 'rejected', reason: 'refused', message: 'no' })
  const paid = await won(payments, presented)
  t.match(await payments.settle(paid, storedResponse), { status: 'rejected', reason: 'refused' })
  t.match(await row(), { state: 'rejected', hasResponse: false, attempt: null })
  payments.deliver(paid, 'not_charged')
  await ended(payments, paid)
  await won(payments, presented)
})

t.test('a payment that its settler refuses keeps the reason in the words of x402', async (t) => {
  const { payments, presented, settler, row } = await start()
  const refusal = { reason: 'insufficient_funds', message: 'no' }
  const verifying = await won(payments, presented)
  settler.verifyWith = async () => ({ ok: false, ...refusal })
  t.match(await payments.verify(verifying), { ok: false })
  payments.deliver(verifying, 'not_charged', undefined, 'invalid_payment')
  await ended(payments, verifying)
  t.match(await row(), { state: 'rejected', errorReason: 'insufficient_funds' })
  const settling = await won(payments, presented)
  settler.settle = async () => ({ status: 'rejected', ...refusal, reason: 'simulation_failed' })
  t.match(await payments.settle(settling, storedResponse), { status: 'rejected' })
  payments.deliver(settling, 'not_charged', undefined, 'invalid_payment')
  await ended(payments, settling)
  t.match(await row(), { state: 'rejected', errorReason: 'simulation_failed' })
})

const signed = (n: number) => ({
  settler: 'scripted',
  bytes: `0x0${n}`,
  transaction: `0x${n}`,
  sequence: String(n),
})

t.test('other bytes take the place of those that were stored, and the answer stays', async (t) => {
  const { payments, presented, settler, row } = await start()
  settler.settle = async (_payment, _terms, { amountAtomic }, store) => {
    t.ok(await store(signed(1)))
    t.match(await row(), { state: 'settling', hasResponse: true, attempt: signed(1) })
    t.ok(await store(signed(2)))
    t.match(await row(), { state: 'settling', hasResponse: true, attempt: signed(2) })
    return scriptedSettled('0x2', amountAtomic)
  }
  const paid = await won(payments, presented)
  t.match(await payments.settle(paid, storedResponse), { status: 'settled', transaction: '0x2' })
  await payments.record(paid)
  t.match(await row(), { state: 'settled', transaction: '0x2' })
})

t.test('other bytes that can not be stored leave open what became of the first', async (t) => {
  for (const sent of [true, false]) {
    let writes = 0
    const { payments, presented, settler, row } = await start({
      adapt: (ledger) => ({
        ...ledger,
        async apply(change) {
          if (change.to === 'settling' && ++writes === 2) throw away()
          return ledger.apply(change)
        },
      }),
    })
    settler.settle = async (_payment, _terms, _identity, store) => {
      await store(signed(1))
      await t.rejects(store(signed(2)), { code: 'store_unavailable' })
      return sent
        ? { status: 'pending', transaction: '0x1', reason: 'settlement_pending' }
        : { status: 'rejected', reason: 'late', message: 'Nothing was sent.' }
    }
    const paid = await won(payments, presented)
    if (sent) {
      t.match(await payments.settle(paid, storedResponse), { status: 'pending', transaction: '0x1' })
      t.match(await row(), { state: 'pending', attempt: signed(1) })
    } else {
      await t.rejects(payments.settle(paid, storedResponse), { code: 'store_unavailable' })
      t.match(await row(), { state: 'rejected', attempt: null }, 'and its buyer may use it again')
    }
    payments.deliver(paid, 'not_charged')
    await ended(payments, paid)
    t.match(await row(), { state: sent ? 'pending' : 'rejected' })
  }
})

t.test(
  'what may be stored, and by then may be sent by another process, is not told to be uncharged',
  async (t) => {
    let writes = 0
    const stage = await start({
      adapt: (ledger) => ({
        ...ledger,
        async apply(change) {
          const isDone = await ledger.apply(change)
          if (change.to === 'settling' && ++writes === 1) throw away()
          return isDone
        },
      }),
    })
    const { payments, presented, settler, row } = stage
    // As when the key moves to another process meanwhile: it is verified there, and signed again.
    settler.settle = async (_payment, _terms, _identity, store) => {
      await t.rejects(store(signed(1)), { code: 'store_unavailable' })
      t.notOk(await store(signed(2)))
      return { status: 'rejected', reason: 'not_stored', message: 'It was not stored.' }
    }
    const paid = await won(payments, presented)
    await t.rejects(payments.settle(paid, storedResponse), { code: 'settlement_pending' })
    await landElsewhere(stage)
    payments.deliver(paid, 'not_charged')
    await ended(payments, paid)
    t.match(await row(), { state: 'settled', attempt: signed(1) })
  },
)

t.test('what is stored too late to be sent is free as soon as it is stored', async (t) => {
  for (const isOverBefore of [true, false]) {
    const stored = Promise.withResolvers<void>()
    const { payments, presented, settler, row } = await start({
      adapt: (ledger) => ({
        ...ledger,
        async apply(change) {
          const isDone = await ledger.apply(change)
          if (change.to === 'settling') await stored.promise
          return isDone
        },
      }),
    })
    // Like a settler whose process was suspended for longer than a database may take.
    settler.settle = async (_payment, _terms, _identity, store) => {
      void store({ settler: 'scripted', bytes: '0x00', transaction: '0x1', sequence: '0' }).catch(() => false)
      return { status: 'rejected', reason: 'late', message: 'It was not stored in time.', transient: true }
    }
    const paid = await won(payments, presented)
    const settling = payments.settle(paid, storedResponse)
    if (isOverBefore) payments.deliver(paid, 'not_charged')
    stored.resolve()
    if (isOverBefore) await t.rejects(settling, { message: /has ended/ })
    else t.match(await settling, { status: 'rejected', reason: 'late' })
    if (!isOverBefore) payments.deliver(paid, 'not_charged')
    await ended(payments, paid)
    t.match(await row(), { state: 'rejected', hasResponse: false, attempt: null })
    await won(payments, presented)
  }
})

t.test('who waits for a payment reads, shares what is read, and hears of this process at once', async (t) => {
  let reads = 0
  const { database, payments, presented, row } = await start({
    adapt: (ledger) => ({
      ...ledger,
      find(one) {
        reads++
        return ledger.find(one)
      },
    }),
  })
  const paid = await won(payments, presented)
  const seen = (await row())!
  const waiting = Array.from({ length: 64 }, () => payments.changed(seen, 5_000))
  await payments.settle(paid, storedResponse)
  t.ok((await Promise.all(waiting)).every((record) => record?.state === 'settling'))
  t.ok(reads <= 3, `${reads} reads`)

  // Another process moves it, which is found by polling.
  const other = await start({ database, name: 'two' })
  const settling = (await row())!
  const late = payments.changed(settling, 5_000)
  t.ok(await other.store.ledger.apply(pend(settling, 'why')))
  t.match(await late, { state: 'pending' })
  reads = 0
  t.equal(await payments.changed((await row())!, 700), undefined, 'the time is over')
  t.ok(reads <= 5, `${reads} looks in 700 ms`)
})
