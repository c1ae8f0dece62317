import t from 'tap'
import type { PaymentRecord } from '../../core/domain/payment.ts'
import { identityOf, limits, network, outcomes } from '../../test/helpers/chains/budgets.ts'
import { Budgets, type Flight } from './budgets.ts'

t.test('who gives way to another, where an account can pay for no more, is one that waits for it', (t) => {
  const clock = { ms: 1e12, now: () => clock.ms }
  const budgets = new Budgets({ ...limits, maxGasPerStoreAndDay: null, network, clock })
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
  const budgets = new Budgets({ ...limits, network, clock })
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
  const budgets = new Budgets({ ...limits, network, clock })
  const held = Array.from({ length: 12 }, (_, i) => budgets.take(identityOf(`buyer-${i}`), 's') as Flight)
  for (const one of held) t.equal(one.reserve(1n), undefined)
  const arrive = (payer: string) => {
    const flight = budgets.take(identityOf(payer), `${payer}’s`) as Flight
    const why = flight.reserve(1n)
    if (why !== undefined) flight.release()
    return why ?? flight
  }
  clock.ms += 2_000
  const first = arrive('fickle') as Flight
  t.type(first, 'object')
  t.equal(arrive('fickle'), 'in_flight', 'while that one waits')
  first.release()
  const free = arrive('fickle') as Flight
  t.type(free, 'object', 'a place that is free is for everybody')
  t.equal(arrive('fickle'), 'in_flight', 'and the next one again of another')
  t.type(arrive('other'), 'object', 'who gives way to others as before')
  free.begin()
  free.end(outcomes.settled)
  t.type(arrive('other'), 'object')
  t.type(arrive('fickle'), 'object', 'a buyer who pays')
  t.equal(arrive('fickle'), 'in_flight')
  clock.ms += 1_000
  t.type(arrive('fickle'), 'object', 'or whose time is over')
  t.equal(held.filter((one) => one.begin()).length, 8)
  t.end()
})

t.test(
  'what is only looked at, in the name of a store, does not make the good payments of that store give way',
  (t) => {
    const clock = { ms: 1e12, now: () => clock.ms }
    const budgets = new Budgets({ ...limits, network, clock })
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
  const budgets = new Budgets({ ...limits, maxGasPerStoreAndDay: null, network, clock })
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
    const budgets = new Budgets({ ...limits, network, clock })
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
  const budgets = new Budgets({ ...limits, network, clock })
  const take = (payer: string, store: string) => budgets.take(identityOf(payer), store)
  const pay = (payer: string) => {
    const flight = take(payer, 'shop') as Flight
    flight.begin()
    flight.end(outcomes.settled)
  }
  for (const payer of ['ada', 'bob', 'cleo']) pay(payer)
  const dans = identityOf('dan')
  const late = budgets.take(dans, 'shop') as Flight
  late.begin()
  late.end(outcomes.pending)
  budgets.note({ ...dans, storeId: 'shop', state: 'pending' } as PaymentRecord, outcomes.settled)
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
  const budgets = new Budgets({ ...limits, network, clock })
  const held = Array.from({ length: 12 }, (_, i) => budgets.take(identityOf(`buyer-${i}`), 's') as Flight)
  for (const one of held) t.equal(one.reserve(1n), undefined)
  clock.ms += 2_000
  const expensive = budgets.take(identityOf('other'), 't') as Flight
  t.equal(expensive.reserve(1_001n), 'store_gas')
  expensive.release()
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
  const budgets = new Budgets({ ...limits, network, clock })
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
