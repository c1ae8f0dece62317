import t from 'tap'
import type { PaymentIdentity, PaymentRecord } from '../../core/domain/payment.ts'
import type { SettleOutcome } from '../../core/ports/chains/settler.ts'
import { identityOf, limits, memoryBook, network, outcomes } from '../../test/helpers/chains/budgets.ts'
import { Budgets, type Flight } from './budgets.ts'

t.test('what another process has concluded is not in its payer’s way any more', async (t) => {
  const gasBook = memoryBook()
  const budgets = new Budgets({ ...limits, maxInFlightPerPayer: 9, network, gasBook })
  const leaveOpen = (identity: PaymentIdentity) => {
    const flight = budgets.take(identity, 's') as Flight
    flight.reserve(100n)
    flight.begin()
    flight.end(outcomes.pending)
    return identity
  }
  const paid = [identityOf('a', 1n), identityOf('a', 10n), identityOf('b', 100n)].map(leaveOpen)
  const aheadOf = (payer: string) => {
    const next = budgets.take(identityOf(payer), 's')
    if (typeof next === 'string') return next
    next.release()
    return next.aheadAtomic
  }
  const requests: (readonly string[])[] = []
  const conclude = (...records: Pick<PaymentRecord, 'key' | 'state'>[]) =>
    budgets.forgetConcluded(async (keys) => {
      requests.push(keys)
      return records as PaymentRecord[]
    })
  const [first, second, third] = paid.map(({ key }) => ({ key }))
  await conclude()
  t.strictSame([aheadOf('a'), aheadOf('b')], [11n, 100n], 'they may land still')
  await conclude({ ...first!, state: 'delivered' })
  t.equal(aheadOf('a'), 10n)
  t.strictSame(requests.at(-1)?.length, 3)
  await conclude({ ...second!, state: 'failed_final' })
  t.equal(aheadOf('a'), 0n)
  const others = [identityOf('a'), identityOf('a'), identityOf('a')].map(leaveOpen)
  t.equal(aheadOf('a'), 'payer_in_flight', 'a failure counts, whoever finds it')
  await conclude(...[...others, third!].map(({ key }) => ({ key, state: 'rejected' as const })))
  t.strictSame([aheadOf('a'), aheadOf('b'), budgets.inFlight], [0n, 0n, 0])
  const before = requests.length
  await conclude()
  t.equal(requests.length, before, 'nothing is asked while nothing stayed open')
  await budgets.close()
  t.equal(gasBook.rows.get('s'), undefined, 'what it cost that process has counted')
})

t.test('what is sent again while others are looked for is no business of that look', async (t) => {
  const budgets = new Budgets({ ...limits, network, maxGasPerStoreAndDay: null })
  const identity = identityOf('a', 5n)
  const leaveOpen = () => {
    const flight = budgets.take(identity, 's') as Flight
    flight.begin()
    flight.end(outcomes.pending)
  }
  leaveOpen()
  await budgets.forgetConcluded(async (keys) => {
    leaveOpen()
    return keys.map((key) => ({ key, state: 'rejected' }) as PaymentRecord)
  })
  t.equal((budgets.take(identityOf('a'), 's') as Flight).aheadAtomic, 5n)
})

t.test('what is concluded long after it could land costs its gas once', async (t) => {
  let now = 0
  const gasBook = memoryBook()
  const budgets = new Budgets({ ...limits, network, gasBook, clock: { now: () => now } })
  const identity = identityOf('a', 1n, 60_000)
  const flight = budgets.take(identity, 's') as Flight
  flight.reserve(100n)
  flight.begin()
  flight.end(outcomes.pending)
  now = 60_000 + 600_000
  await budgets.forgetConcluded(async () => [])
  t.equal(budgets.inFlight, 0)
  budgets.note({ ...identity, storeId: 's' } as PaymentRecord, outcomes.settled)
  await budgets.close()
  t.equal(gasBook.rows.get('s')?.spent, 100n)
})

t.test('an end that is found again and again, before it is booked and after, counts once', async (t) => {
  const gasBook = memoryBook()
  const budgets = new Budgets({ ...limits, network, gasBook })
  const last = budgets.take(identityOf('z'), 'other') as Flight
  last.reserve(100n)
  last.begin()
  last.end(outcomes.settled)
  const recordOf = (payer: string, state: string) =>
    ({ ...identityOf(payer), storeId: 's', state }) as PaymentRecord
  const [landed, lost] = [recordOf('a', 'pending'), recordOf('b', 'settling')]
  // A ledger that cannot be written for any length of time.
  for (let i = 0; i < 50; i++) {
    budgets.note(landed, outcomes.settled)
    budgets.note(lost, outcomes.failed_final)
  }
  // Looked at once more, to be sure.
  budgets.note({ ...lost, state: 'failed_final' }, outcomes.failed_final)
  budgets.note(recordOf('b', 'failed_final'), outcomes.failed_final)
  // Taken back by a reorganisation, and mined again.
  budgets.note({ ...landed, state: 'reorged' }, outcomes.settled)
  budgets.note(recordOf('a', 'reorged'), outcomes.settled)
  t.type(budgets.take(identityOf('b'), 's'), 'object')
  t.equal(budgets.isSpent('b'), false, 'of four failures it has one')
  for (let i = 0; i < 3; i++) budgets.note(recordOf('b', 'pending'), outcomes.failed_final)
  t.equal(budgets.isSpent('b'), true)
  await budgets.close()
  t.equal(gasBook.rows.get('s')?.spent, 500n, 'one that landed, and four that were lost')
})

t.test('whose payment others have found settled has paid here', async (t) => {
  let nowMs = 1e12
  const budgets = new Budgets({
    ...limits,
    network,
    maxInFlight: 3,
    failureBudget: { failures: 4, windowMs: 60_000 },
    clock: { now: () => nowMs },
  })
  const held = (payer: string, store: string) => {
    const flight = budgets.take(identityOf(payer), store) as Flight
    return { flight, why: flight.reserve(1n) }
  }
  for (let i = 0; i < 3; i++) held('silent', 'silent')
  nowMs += 2_000
  const { flight, why } = held('ann', 'shop')
  t.equal(why, undefined, 'the silent one gives way')
  flight.begin()
  flight.end(outcomes.pending)
  await budgets.forgetConcluded(async (keys) =>
    keys.map((key) => ({ key, payer: 'ann', state: 'delivered' }) as PaymentRecord),
  )
  held('silent', 'silent')
  nowMs += 2_000
  t.equal(held('ann', 'shop').why, undefined, 'and once more')
  t.end()
})

t.test('what has left its place and is never concluded is over once it can’t land any more', async (t) => {
  let now = 0
  const budgets = new Budgets({
    ...limits,
    maxGasPerStoreAndDay: null,
    network,
    maxInFlight: 1,
    clock: { now: () => now },
  })
  for (const payer of ['a', 'b']) {
    const flight = budgets.take(identityOf(payer, 1n, 60_000), 's') as Flight
    flight.begin()
    flight.end(outcomes.pending)
  }
  t.equal(budgets.inFlight, 0)
  let requestCount = 0
  const look = () =>
    budgets.forgetConcluded(async (keys) => {
      requestCount += keys.length
      return []
    })
  await look()
  t.equal(requestCount, 2)
  now = 60_000 + 600_000
  await look()
  t.equal(requestCount, 2)
})

t.test('what was verified, and neither settled nor given back, holds nothing once its time is over', (t) => {
  let nowMs = 1_000
  const budgets = new Budgets({
    ...limits,
    network,
    maxGasPerStoreAndDay: null,
    clock: { now: () => nowMs },
  })
  const lost = budgets.take(identityOf('a', 5n, 2_000), 's') as Flight
  t.equal((budgets.take(identityOf('a'), 's') as Flight).aheadAtomic, 5n)
  nowMs = 2_000
  t.equal((budgets.take(identityOf('a'), 's') as Flight).aheadAtomic, 1n)
  t.notOk(lost.begin(), 'it can not be settled any more')
  t.end()
})

t.test('a place that nobody gives back is free once its payment can’t land any more', (t) => {
  let now = 0
  const budgets = new Budgets({ ...limits, maxInFlight: 2, network, clock: { now: () => now } })
  budgets.take(identityOf('a', 1n, 60_000), 's')
  budgets.take(identityOf('b', 1n, 60_000), 's')
  t.equal(budgets.take(identityOf('c'), 's'), 'in_flight')
  now = 60_000 + 600_000
  t.type(budgets.take(identityOf('c'), 's'), 'object')
  t.equal(budgets.inFlight, 1)
  t.end()
})

t.test('what is mined for nothing counts once, whether the call hears of it or recovery', async (t) => {
  const minedForNothing = { ...outcomes.pending, message: 'It was reverted.' } as const
  const gasBook = memoryBook()
  const budgets = new Budgets({ ...limits, network, gasBook })
  const settle = (payer: string, outcome: SettleOutcome) => {
    const identity = identityOf(payer)
    const flight = budgets.take(identity, 's') as Flight
    flight.reserve(100n)
    flight.begin()
    flight.end(outcome, 60n)
    return { ...identity, storeId: 's', state: 'pending' } as PaymentRecord
  }
  const received = settle('a', minedForNothing)
  const late = settle('b', outcomes.pending)
  const known = settle('c', outcomes.settled)
  for (const record of [received, late]) {
    // The row cannot be written for a while, then the outcome is stored, then the payment is given up.
    budgets.note(record, minedForNothing, 60n)
    budgets.note(record, minedForNothing, 60n)
    budgets.note(record, outcomes.failed_final, 60n)
    budgets.note({ ...record, state: 'failed_final' }, outcomes.failed_final, 60n)
  }
  budgets.note(known, outcomes.settled, 60n)
  for (const payer of ['a', 'b']) {
    for (let i = 0; i < 2; i++) settle(payer, outcomes.failed_final)
    t.equal(budgets.isSpent(payer), false, 'three of four')
    settle(payer, outcomes.failed_final)
    t.equal(budgets.isSpent(payer), true)
  }
  await budgets.close()
  t.equal(gasBook.rows.get('s')?.spent, 9n * 60n)
})
