import fc from 'fast-check'
import t from 'tap'
import type { PaymentIdentity, PaymentRecord } from '../../core/domain/payment.ts'
import type { SettleOutcome } from '../../core/ports/chains/settler.ts'
import type { GasBook, GasOfStore } from '../../core/ports/store/gasBook.ts'
import { type Budgets, type BudgetsOptions, createBudgets, type Flight } from './budgets.ts'

const network = 'eip155:84532'
const limits: Pick<
  BudgetsOptions,
  'maxInFlight' | 'maxInFlightPerPayer' | 'failureBudget' | 'maxGasPerStoreAndDay'
> = {
  maxInFlight: 12,
  maxInFlightPerPayer: 5,
  failureBudget: { failures: 4, windowMs: 1_000 },
  maxGasPerStoreAndDay: 1_000n,
}

let count = 0
const identityOf = (payer: string, amountAtomic = 1n, validBeforeMs = 1e15): PaymentIdentity => ({
  key: `key-${++count}`,
  network,
  asset: 'usdc',
  payer,
  nonce: `${count}`,
  payTo: 'seller',
  amountAtomic,
  validBeforeMs,
})

const outcomes = {
  settled: { status: 'settled', transaction: '0x', event: '0', block: 1, chargedAtomic: 1n },
  rejected: { status: 'rejected', reason: 'x', message: '' },
  pending: { status: 'pending', reason: 'x', transaction: '0x' },
  failed_final: { status: 'failed_final', reason: 'x', message: '', transaction: '0x' },
} as const satisfies Record<string, SettleOutcome>

/** A book in memory. */
function memoryBook(): GasBook & { rows: Map<string, GasOfStore> } {
  const rows = new Map<string, GasOfStore>()
  return {
    rows,
    read: async (_network, fromDay) => [...rows.values()].filter(({ day }) => day >= fromDay),
    async add(_network, { storeId, day, spent }) {
      const row = rows.get(storeId)
      const sum = row?.day === day ? row.spent + spent : spent
      rows.set(storeId, { storeId, day, spent: sum })
      return sum
    },
  }
}

const step = fc.record({
  payer: fc.constantFrom('a', 'b', 'c'),
  store: fc.constantFrom('s', 't'),
  what: fc.constantFrom(
    'take',
    'take',
    'take',
    'release',
    'settled',
    'rejected',
    'pending',
    'failed_final',
    'refused',
    'late',
    'wait',
    'restart',
  ),
  which: fc.nat(20),
  gas: fc.integer({ min: 1, max: 300 }),
  saves: fc.boolean(),
})

t.test('in any order of holds, releases, outcomes and restarts no budget is exceeded', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
      let now = 1_000
      const clock = { now: () => now }
      const gasBook = memoryBook()
      let budgets = createBudgets({ ...limits, network, clock, gasBook })
      interface Held {
        flight: Flight
        identity: PaymentIdentity
        gas: bigint
        isBegun: boolean
      }
      let held: Held[] = []
      const open: Held[] = []
      const failed: { payer: string; atMs: number }[] = []
      const spent = new Map<string, bigint>()
      for (const { payer, store, what, which, gas, saves } of steps) {
        const one = held[which % Math.max(1, held.length)]
        const drop = () => (held = held.filter((other) => other !== one))
        switch (what) {
          case 'take': {
            const identity = identityOf(payer)
            const flight = budgets.take(identity, store)
            if (typeof flight === 'string') break
            const same = [...held, ...open].filter((other) => other.identity.payer === payer)
            if (flight.aheadAtomic !== BigInt(same.length)) throw new Error('the sum ahead is wrong')
            if (flight.reserve(BigInt(gas)) === undefined)
              held.push({ flight, identity, gas: BigInt(gas), isBegun: false })
            else flight.release()
            break
          }
          case 'release':
            if (one === undefined) break
            one.flight.release()
            one.flight.release()
            drop()
            break
          case 'refused':
            if (one === undefined) break
            one.flight.refused()
            failed.push({ payer: one.identity.payer, atMs: now })
            drop()
            break
          case 'settled':
          case 'rejected':
          case 'pending':
          case 'failed_final': {
            if (one === undefined || !one.flight.begin()) break
            one.flight.release()
            one.flight.end(outcomes[what])
            drop()
            if (what === 'pending') open.push(one)
            if (what === 'failed_final') failed.push({ payer: one.identity.payer, atMs: now })
            if (what === 'settled' || what === 'failed_final')
              spent.set(one.flight.storeId, (spent.get(one.flight.storeId) ?? 0n) + one.gas)
            break
          }
          case 'late': {
            const late = open.shift()
            if (late === undefined) break
            const record = { ...late.identity, storeId: late.flight.storeId } as PaymentRecord
            budgets.note(record, outcomes.pending)
            budgets.note(record, outcomes.failed_final)
            failed.push({ payer: late.identity.payer, atMs: now })
            spent.set(late.flight.storeId, (spent.get(late.flight.storeId) ?? 0n) + late.gas)
            break
          }
          case 'wait':
            now += 50 * which
            break
          case 'restart':
            // Killed, or closed well: what is on its way is looked up by the next one, which knows of no failures.
            if (held.length > 0 || open.length > 0) break
            if (saves) await budgets.close()
            budgets = createBudgets({ ...limits, network, clock, gasBook })
            await budgets.start()
            failed.length = 0
        }
        if (budgets.inFlight !== held.length + open.length) throw new Error('places got lost')
        if (budgets.inFlight > limits.maxInFlight) throw new Error('too many on their way')
        for (const payer of ['a', 'b', 'c']) {
          const recent = failed.filter((one) => one.payer === payer && one.atMs > now - 1_000).length
          const flying = [...held, ...open].filter((one) => one.identity.payer === payer).length
          if (recent + flying > 4) throw new Error(`${payer} could fail ${recent + flying} times`)
        }
        for (const store of ['s', 't']) {
          const flying = [...held, ...open].filter(({ flight }) => flight.storeId === store)
          const most = flying.reduce((sum, one) => sum + one.gas, spent.get(store) ?? 0n)
          if (most > 1_000n) throw new Error(`${store} could cost ${most}`)
        }
      }
    }),
    { numRuns: 400 },
  )
})

t.test(
  'gas lost to a thousand payments at once is no more than the payer’s and the store’s budgets',
  async (t) => {
    const budgets = createBudgets({ ...limits, maxInFlight: 5_000, network })
    const flights = Array.from({ length: 1_000 }, () => budgets.take(identityOf('liar'), 's'))
    const taken = flights.filter((one) => typeof one !== 'string')
    t.equal(taken.length, 4, 'as many as may fail')
    for (const flight of taken) {
      t.equal(flight.reserve(10n), undefined)
      flight.begin()
      flight.end(outcomes.failed_final)
    }
    t.equal(budgets.take(identityOf('liar'), 's'), 'payer_failures')

    let lost = 40n
    for (let i = 0; i < 1_000; i++) {
      const flight = budgets.take(identityOf(`wallet-${i}`), 's')
      if (typeof flight === 'string') continue
      if (flight.reserve(10n) === undefined) {
        flight.begin()
        flight.end(outcomes.failed_final)
        lost += 10n
      } else flight.release()
    }
    t.equal(lost, 1_000n, 'fresh wallets end at the store’s day')
    t.match(budgets.diagnose(), [/store s .* midnight UTC/])
    t.type(budgets.take(identityOf('honest'), 'another'), 'object', 'other stores go on')
  },
)

t.test('what is set apart for payments on their way, and comes back, is not told as used up', (t) => {
  const budgets = createBudgets({ ...limits, network })
  const take = () => budgets.take(identityOf('buyer'), 's') as Flight
  const held = [take(), take()]
  for (const flight of held) t.equal(flight.reserve(450n), undefined)
  const next = take()
  t.equal(next.reserve(450n), 'store_in_flight')
  t.equal(next.reserve(100n), undefined)
  t.equal(budgets.take(identityOf('buyer'), 's'), 'store_in_flight')
  t.strictSame(budgets.diagnose(), [], 'nothing is spent')
  for (const flight of held) flight.release()
  t.equal(take().reserve(450n), undefined)
  t.end()
})

t.test('a new day is a new budget, and a clock that goes back brings none', (t) => {
  let now = 86_400_000 * 10
  const budgets = createBudgets({ ...limits, network, clock: { now: () => now } })
  const spend = () => {
    const flight = budgets.take(identityOf('a'), 's')
    if (typeof flight === 'string') return flight
    if (flight.reserve(1_000n) !== undefined) return 'no room'
    flight.begin()
    flight.end(outcomes.settled)
    return 'spent'
  }
  t.equal(spend(), 'spent')
  t.equal(spend(), 'store_gas')
  now += 86_400_000
  t.equal(spend(), 'spent')
  now -= 86_400_000
  t.equal(spend(), 'store_gas')
  t.end()
})

t.test('what another process has concluded is not in its payer’s way any more', async (t) => {
  const gasBook = memoryBook()
  const budgets = createBudgets({ ...limits, maxInFlightPerPayer: 9, network, gasBook })
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
  const asked: (readonly string[])[] = []
  const conclude = (...records: Pick<PaymentRecord, 'key' | 'state' | 'errorReason'>[]) =>
    budgets.forgetConcluded(
      async (keys) => {
        asked.push(keys)
        return records as PaymentRecord[]
      },
      ({ errorReason }) => (errorReason === 'expired' ? 0n : undefined),
    )
  const [first, second, third] = paid.map(({ key }) => ({ key, errorReason: null }))
  await conclude()
  t.strictSame([aheadOf('a'), aheadOf('b')], [11n, 100n], 'they may land still')
  await conclude({ ...first!, state: 'delivered' })
  t.equal(aheadOf('a'), 10n)
  t.strictSame(asked.at(-1)?.length, 3)
  await conclude({ ...second!, state: 'failed_final', errorReason: 'expired' })
  t.equal(aheadOf('a'), 0n)
  const others = [identityOf('a'), identityOf('a'), identityOf('a')].map(leaveOpen)
  t.equal(aheadOf('a'), 'payer_in_flight', 'a failure counts, whoever finds it')
  await conclude(
    ...[...others, third!].map(({ key }) => ({ key, state: 'rejected' as const, errorReason: null })),
  )
  t.strictSame([aheadOf('a'), aheadOf('b'), budgets.inFlight], [0n, 0n, 0])
  const before = asked.length
  await conclude()
  t.equal(asked.length, before, 'nothing is asked while nothing stayed open')
  await budgets.close()
  t.equal(
    gasBook.rows.get('s')?.spent,
    100n,
    'what was freed, or is known to have cost nothing, costs nothing',
  )
})

t.test('what is sent again while others are looked for is no business of that look', async (t) => {
  const budgets = createBudgets({ ...limits, network, maxGasPerStoreAndDay: null })
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
  const budgets = createBudgets({ ...limits, network, gasBook, clock: { now: () => now } })
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
  const budgets = createBudgets({ ...limits, network, gasBook })
  const last = budgets.take(identityOf('z'), 'other') as Flight
  last.reserve(100n)
  last.begin()
  last.end(outcomes.settled)
  const recordOf = (payer: string, state: string) =>
    ({ ...identityOf(payer), storeId: 's', state }) as PaymentRecord
  const [landed, lost] = [recordOf('a', 'pending'), recordOf('b', 'settling')]
  // Books that can't be written, for as long as they like.
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
  const budgets = createBudgets({
    ...{ ...limits, network, maxInFlight: 3, failureBudget: { failures: 4, windowMs: 60_000 } },
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
  const budgets = createBudgets({
    ...{ ...limits, maxGasPerStoreAndDay: null, network, maxInFlight: 1 },
    clock: { now: () => now },
  })
  for (const payer of ['a', 'b']) {
    const flight = budgets.take(identityOf(payer, 1n, 60_000), 's') as Flight
    flight.begin()
    flight.end(outcomes.pending)
  }
  t.equal(budgets.inFlight, 0)
  let asked = 0
  const look = () =>
    budgets.forgetConcluded(async (keys) => {
      asked += keys.length
      return []
    })
  await look()
  t.equal(asked, 2)
  now = 60_000 + 600_000
  await look()
  t.equal(asked, 2)
})

t.test('what was verified, and neither settled nor given back, holds nothing once its time is over', (t) => {
  let nowMs = 1_000
  const budgets = createBudgets({
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
  const budgets = createBudgets({ ...limits, maxInFlight: 2, network, clock: { now: () => now } })
  budgets.take(identityOf('a', 1n, 60_000), 's')
  budgets.take(identityOf('b', 1n, 60_000), 's')
  t.equal(budgets.take(identityOf('c'), 's'), 'in_flight')
  now = 60_000 + 600_000
  t.type(budgets.take(identityOf('c'), 's'), 'object')
  t.equal(budgets.inFlight, 1)
  t.end()
})

t.test('a key that goes to another process and comes back gives a store one day, not two', async (t) => {
  const gasBook = memoryBook()
  const clock = { now: () => 1_000 }
  const many: BudgetsOptions = { ...limits, network, clock, gasBook }
  const spend = (budgets: Budgets) => {
    let spent = 0n
    for (let i = 0; i < 3; i++) {
      const flight = budgets.take({ ...identityOf('a'), key: `${i}-${spent}` }, 'store')
      if (typeof flight === 'string') return spent
      if (flight.reserve(200n) !== undefined) {
        flight.release()
        return spent
      }
      flight.begin()
      flight.end({ status: 'settled', transaction: '0x', event: '0', block: 1, chargedAtomic: 1n })
      spent += 200n
    }
    return spent
  }
  const [first, second] = [createBudgets(many), createBudgets(many)]
  let spent = 0n
  for (const holder of [first, second, first, second, first]) {
    await holder.start()
    spent += spend(holder)
  }
  t.ok(spent <= 1_000n, `${spent} of a day’s 1000`)
  t.ok(spent > 0n)
})

t.test('processes that sell side by side give a store one day between them, not one each', async (t) => {
  const gasBook = memoryBook()
  const clock = { now: () => 1_000 }
  const all = Array.from({ length: 3 }, () => createBudgets({ ...limits, network, clock, gasBook }))
  await Promise.all(all.map((budgets) => budgets.start()))
  let spent = 0n
  for (let i = 0; i < 600; i++) {
    const flight = all[i % 3]!.take(identityOf(`buyer-${i}`), 'store')
    if (typeof flight === 'string') continue
    if (flight.reserve(5n) === undefined) {
      flight.begin()
      flight.end(outcomes.settled)
      spent += 5n
    } else flight.release()
    // What was noted arrives.
    await new Promise(setImmediate)
  }
  t.ok(spent <= 1_000n + 2n * 5n, `${spent} of a day’s 1000`)
  t.ok(spent >= 990n, `${spent} of a day’s 1000`)
  await Promise.all(all.map((budgets) => budgets.close()))
  t.equal(gasBook.rows.get('store')?.spent, spent, 'and nothing that was written ahead stays')
})

t.test('what a book could not note is noted with the next, and once', async (t) => {
  const kept = memoryBook()
  let isAway = true
  const gasBook: GasBook = {
    read: kept.read,
    add: async (...gas) => {
      if (isAway) throw new Error('away')
      return kept.add(...gas)
    },
  }
  const budgets = createBudgets({ ...limits, network, gasBook })
  const spend = async () => {
    const flight = budgets.take(identityOf('a'), 's') as Flight
    flight.reserve(100n)
    flight.begin()
    flight.end(outcomes.settled)
    await new Promise(setImmediate)
  }
  await spend()
  t.equal(kept.rows.size, 0)
  isAway = false
  await spend()
  await budgets.close()
  t.equal(kept.rows.get('s')?.spent, 200n)
})

t.test('who gives way to another, where an account can pay for no more, is one that waits for it', (t) => {
  const clock = { ms: 1e12, now: () => clock.ms }
  const budgets = createBudgets({ ...limits, maxGasPerStoreAndDay: null, network, clock })
  const take = (payer: string, store: string) => budgets.take(identityOf(payer), store) as Flight
  const lookedAt = Array.from({ length: 4 }, (_, i) => take(`junk-${i}`, 'silent'))
  const good = Array.from({ length: 3 }, (_, i) => take(`accomplice-${i}`, 'other'))
  for (const one of good) t.equal(one.reserve(1n, '', 3), undefined)
  t.equal(take('hasty', 'neighbour').reserve(1n, '', 3), 'means', 'not at once')
  clock.ms += 2_000
  const buyers = take('buyer', 'neighbour')
  t.equal(budgets.waitingFor(), 3)
  t.equal(buyers.reserve(1n, '', 3), undefined)
  t.equal(budgets.waitingFor(), 3)
  t.equal(good.filter((one) => one.begin()).length, 2)
  t.equal(take('late', 'another').reserve(1n, '', 3), 'means', 'what is being settled does not give way')
  t.ok(lookedAt.every((one) => one.begin()))
  t.end()
})

t.test('nobody gives way to a payment for which one place, or what one would cost, is not enough', (t) => {
  const clock = { ms: 1e12, now: () => clock.ms }
  const budgets = createBudgets({ ...limits, network, clock })
  const held = Array.from({ length: 12 }, (_, i) => budgets.take(identityOf(`buyer-${i}`), 's') as Flight)
  for (const one of held) t.equal(one.reserve(1n, 'first'), undefined)
  clock.ms += 2_000
  const late = budgets.take(identityOf('late'), 't') as Flight
  t.equal(late.reserve(1n, 'second', 0), 'means', 'an account that is empty')
  t.equal(late.reserve(1n, 'first', 11), 'means', 'one that has got poorer since')
  t.equal(late.reserve(1_001n, 'first'), 'store_gas')
  t.equal(budgets.waitingFor('first'), 12)
  t.equal(late.reserve(1_000n, 'first', 12), undefined, 'and the day of its store has kept nothing')
  t.equal(budgets.waitingFor('first'), 12)
  t.equal(held.filter((one) => one.begin()).length, 11, 'one gives way where place and account are short')
  t.end()
})

t.test('nobody gives way twice to a payer of whom nothing has settled since', (t) => {
  const clock = { ms: 1e12, now: () => clock.ms }
  const budgets = createBudgets({ ...limits, network, clock })
  const held = Array.from({ length: 12 }, (_, i) => budgets.take(identityOf(`buyer-${i}`), 's') as Flight)
  for (const one of held) t.equal(one.reserve(1n), undefined)
  const come = (payer: string) => {
    const flight = budgets.take(identityOf(payer), `${payer}’s`) as Flight
    const why = flight.reserve(1n)
    if (why !== undefined) flight.release()
    return why ?? flight
  }
  clock.ms += 2_000
  const first = come('fickle') as Flight
  t.type(first, 'object')
  t.equal(come('fickle'), 'in_flight', 'while that one waits')
  first.release()
  const free = come('fickle') as Flight
  t.type(free, 'object', 'a place that is free is for everybody')
  t.equal(come('fickle'), 'in_flight', 'and the next one again of another')
  t.type(come('other'), 'object', 'who gives way to others as before')
  free.begin()
  free.end(outcomes.settled)
  t.type(come('other'), 'object')
  t.type(come('fickle'), 'object', 'a buyer who pays')
  t.equal(come('fickle'), 'in_flight')
  clock.ms += 1_000
  t.type(come('fickle'), 'object', 'or whose time is over')
  t.equal(held.filter((one) => one.begin()).length, 8)
  t.end()
})

t.test(
  'what is only looked at, in the name of a store, does not make the good payments of that store give way',
  (t) => {
    const clock = { ms: 1e12, now: () => clock.ms }
    const budgets = createBudgets({ ...limits, network, clock })
    const good = (payer: string, store: string) => {
      const flight = budgets.take(identityOf(payer), store) as Flight
      t.equal(flight.reserve(1n), undefined)
      return flight
    }
    const victims = Array.from({ length: 3 }, (_, i) => good(`buyer-${i}`, 'victim'))
    const silent = Array.from({ length: 5 }, (_, i) => good(`accomplice-${i}`, 'silent'))
    for (let i = 0; i < 4; i++) budgets.take(identityOf(`junk-${i}`), 'victim')
    clock.ms += 2_000
    for (let i = 0; i < 5; i++) good(`late-${i}`, `other-${i}`)
    t.equal(budgets.waitingFor(), 12)
    t.equal(silent.filter((one) => one.begin()).length, 4)
    t.ok(victims.every((one) => one.begin()))
    t.end()
  },
)

t.test('who waits for an account counts against that one alone, until it has signed', (t) => {
  const clock = { ms: 1e12, now: () => clock.ms }
  const budgets = createBudgets({ ...limits, maxGasPerStoreAndDay: null, network, clock })
  const good = (payer: string, store: string, account: string) => {
    const flight = budgets.take(identityOf(payer), store) as Flight
    t.equal(flight.reserve(1n, account), undefined)
    return flight
  }
  const held = Array.from({ length: 4 }, (_, i) => good(`buyer-${i}`, 'silent', 'first'))
  const others = Array.from({ length: 3 }, (_, i) => good(`another-${i}`, 'small', 'second'))
  // What it has elsewhere is nothing that 'first' pays for.
  for (let i = 0; i < 3; i++) good(`own-${i}`, 'neighbour', 'third')
  t.same(
    ['first', 'second', 'third', undefined].map((account) => budgets.waitingFor(account)),
    [4, 3, 3, 0],
  )
  clock.ms += 2_000
  const late = (payer: string, account: string, affords: number) =>
    (budgets.take(identityOf(payer), 'neighbour') as Flight).reserve(1n, account, affords)
  t.equal(late('late', 'second', 3), undefined)
  t.equal(others.filter((one) => one.begin()).length, 2)
  t.equal(late('later', 'first', 4), undefined)
  t.same([budgets.waitingFor('first'), budgets.waitingFor('second')], [4, 3])
  const [one] = held.filter((one) => one.begin())
  one!.signed(true)
  t.equal(budgets.waitingFor('first'), 3)
  t.equal(one!.reserve(2n, 'first'), undefined)
  t.equal(budgets.waitingFor('first'), 3, 'it stays signed')
  one!.signed(false)
  t.equal(budgets.waitingFor('first'), 4)
  one!.signed(true)
  one!.end(outcomes.settled)
  one!.signed(false)
  t.equal(budgets.waitingFor('first'), 3, 'what is over waits for nobody')
  t.end()
})

t.test(
  'where all places are taken, who waits for its seller gives way to a store that has fewer',
  async (t) => {
    const clock = { ms: 1e12, now: () => clock.ms }
    const budgets = createBudgets({ ...limits, network, clock })
    const take = (payer: string, store: string) => budgets.take(identityOf(payer), store)
    const good = (payer: string, store: string) => {
      const flight = take(payer, store)
      if (typeof flight !== 'string') t.equal(flight.reserve(1n), undefined)
      return flight
    }
    const held = Array.from({ length: 12 }, (_, i) => good(`accomplice-${i}`, 'silent') as Flight)
    t.equal(take('buyer', 'neighbour'), 'in_flight', 'not at once')
    clock.ms += 2_000
    t.equal(take('another', 'silent'), 'in_flight', 'its own do not')
    held[0]!.begin()
    const junk = Array.from({ length: 5 }, (_, i) => take(`liar-${i}`, 'neighbour') as Flight)
    for (const one of junk) one.refused()
    t.equal(budgets.inFlight, 12, 'nobody gives way to what is not good itself')
    const own = Array.from({ length: 6 }, (_, i) => good(`buyer-${i}`, 'neighbour'))
    t.ok(
      own.every((one) => typeof one !== 'string'),
      'up to half of the places',
    )
    t.equal(budgets.inFlight, 12)
    t.equal(take('buyer-7', 'neighbour'), 'in_flight', 'and then they are even')
    t.notOk(held[1]!.begin(), 'what gave way is not settled')
    t.equal(held[1]!.reserve(1n), 'in_flight', 'and its store has not used up its gas')
    held[1]!.end(outcomes.settled)
    held[1]!.release()
    t.equal(budgets.inFlight, 12, 'and its end takes no place from another')
    held[0]!.end(outcomes.settled)
    t.equal(budgets.inFlight, 11, 'what is being settled does not give way')
  },
)

t.test('who has paid before is neither kept out nor thrown out by those whom nobody knows', (t) => {
  const clock = { ms: 1e12, now: () => clock.ms }
  const budgets = createBudgets({ ...limits, network, clock })
  const take = (payer: string, store: string) => budgets.take(identityOf(payer), store)
  const pay = (payer: string) => {
    const flight = take(payer, 'shop') as Flight
    flight.begin()
    flight.end(outcomes.settled)
  }
  for (const payer of ['ada', 'bob', 'cleo']) pay(payer)
  const late = take('dan', 'shop') as Flight
  late.begin()
  late.end(outcomes.pending)
  // The key of the last one that was taken.
  budgets.note(
    { ...identityOf('dan'), key: `key-${count - 1}`, storeId: 'shop' } as PaymentRecord,
    outcomes.settled,
  )
  const looked = [take('ada', 'shop'), take('ada', 'shop'), take('ada', 'shop')] as Flight[]
  let junk = 0
  const flood = (storeOf: (i: number) => string) => {
    for (let i = 0; i < 40; i++) take(`junk-${++junk}`, storeOf(junk))
  }
  flood(() => 'shop')
  t.equal(budgets.inFlight, 12)
  t.type(take('new', 'new one’s'), 'string', 'whom nobody knows waits for two seconds')
  t.type(take('bob', 'shop'), 'object', 'who has paid before does not')
  clock.ms += 2_000
  flood((i) => `another-${i}`)
  t.equal(budgets.inFlight, 24)
  t.type(take('cleo', 'shop'), 'object', 'whatever else is looked at')
  t.type(take('dan', 'shop'), 'object', 'and whoever found out that it had landed')
  t.equal(budgets.inFlight, 24)
  t.ok(
    looked.every((one) => one.begin()),
    'and none of theirs gives way',
  )
  t.end()
})

t.test('nobody gives way to a payment whose store has no gas left for it', (t) => {
  const clock = { ms: 1e12, now: () => clock.ms }
  const budgets = createBudgets({ ...limits, network, clock })
  const held = Array.from({ length: 12 }, (_, i) => budgets.take(identityOf(`buyer-${i}`), 's') as Flight)
  for (const one of held) t.equal(one.reserve(1n), undefined)
  clock.ms += 2_000
  const dear = budgets.take(identityOf('other'), 't') as Flight
  t.equal(dear.reserve(1_001n), 'store_gas')
  dear.release()
  t.equal(budgets.waitingFor(), 12)
  const late = budgets.take(identityOf('late'), 'u') as Flight
  t.ok(held.every((one) => one.begin()))
  t.equal(late.reserve(600n), 'in_flight', 'what is being settled does not give way')
  late.release()
  held[0]!.end(outcomes.settled)
  const next = budgets.take(identityOf('late'), 'u') as Flight
  t.equal(next.reserve(1_000n), undefined, 'and what had no place has kept nothing of its store’s day')
  t.end()
})

t.test('nobody gives way to a payment that is refused all the same', async (t) => {
  const clock = { ms: 1e12, now: () => clock.ms }
  const budgets = createBudgets({ ...limits, network, clock })
  for (let i = 0; i < 4; i++) {
    const flight = budgets.take(identityOf('liar'), 's') as Flight
    flight.refused()
  }
  for (let i = 0; i < 12; i++) budgets.take(identityOf(`buyer-${i}`), 's')
  clock.ms += 2_000
  // Failures are forgotten by then, but for those of now.
  const spent = budgets.take(identityOf('buyer-0', 1n), 't')
  t.not(typeof spent, 'string', 'a place for who may')
  for (let i = 0; i < 4; i++) (budgets.take(identityOf('liar'), 't') as Flight).refused()
  const before = budgets.inFlight
  t.equal(budgets.take(identityOf('liar'), 'u'), 'payer_failures')
  t.equal(budgets.inFlight, before)
})
