import fc from 'fast-check'
import t from 'tap'
import type { PaymentIdentity, PaymentRecord } from '../../core/domain/payment.ts'
import type { GasBook } from '../../core/ports/store/gasBook.ts'
import { identityOf, limits, memoryBook, network, outcomes } from '../../test/helpers/chains/budgets.ts'
import { Budgets, type BudgetsOptions, type Flight } from './budgets.ts'

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
      let budgets = new Budgets({ ...limits, network, clock, gasBook })
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
            // Whether this process was killed or closed in order, the next process checks its open payments and does not know the
            // payers' failures.
            if (held.length > 0 || open.length > 0) break
            if (saves) await budgets.close()
            budgets = new Budgets({ ...limits, network, clock, gasBook })
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
    const budgets = new Budgets({ ...limits, maxInFlight: 5_000, network })
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
  const budgets = new Budgets({ ...limits, network })
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
  const budgets = new Budgets({ ...limits, network, clock: { now: () => now } })
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
  const [first, second] = [new Budgets(many), new Budgets(many)]
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
  const all = Array.from({ length: 3 }, () => new Budgets({ ...limits, network, clock, gasBook }))
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
  let isUnavailable = true
  const gasBook: GasBook = {
    read: kept.read,
    add: async (...gas) => {
      if (isUnavailable) throw new Error('away')
      return kept.add(...gas)
    },
  }
  const budgets = new Budgets({ ...limits, network, gasBook })
  const spend = async () => {
    const flight = budgets.take(identityOf('a'), 's') as Flight
    flight.reserve(100n)
    flight.begin()
    flight.end(outcomes.settled)
    await new Promise(setImmediate)
  }
  await spend()
  t.equal(kept.rows.size, 0)
  isUnavailable = false
  await spend()
  await budgets.close()
  t.equal(kept.rows.get('s')?.spent, 200n)
})
