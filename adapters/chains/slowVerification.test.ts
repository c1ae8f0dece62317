import t from 'tap'
import { identityOf, limits, network, outcomes } from '../../test/helpers/chains/budgets.ts'
import { Budgets, type Flight } from './budgets.ts'

/** Twelve slots, as many again for payments in verification, and wallets that have paid before. */
function stage(...known: readonly string[]) {
  const clock = { ms: 1e12, now: () => clock.ms }
  const budgets = new Budgets({ ...limits, network, clock })
  const take = (payer: string, store: string) => budgets.take(identityOf(payer), store)
  for (const payer of known) {
    const flight = take(payer, 'shop') as Flight
    flight.begin()
    flight.end(outcomes.settled)
  }
  return { clock, budgets, take }
}
const names = (name: string, many: number) => Array.from({ length: many }, (_, i) => `${name}-${i}`)

t.test('who has paid before and is looked at for long gives way to whom nobody knows', (t) => {
  const paid = names('paid', 4)
  const { clock, budgets, take } = stage(...paid)
  // Each in the name of another store, so that no store has more than another.
  const held = [0, 1, 2].flatMap((n) => paid.map((payer) => take(payer, `${payer}’s ${n}`) as Flight))
  t.equal(budgets.inFlight, 12)
  t.equal(take('new', 'shop'), 'in_flight', 'not at once')
  clock.ms += 4_999
  t.equal(take('new', 'shop'), 'in_flight')
  clock.ms += 1
  const fresh = names('new', 12).map((payer) => take(payer, 'shop') as Flight)
  t.ok(fresh.every((one) => typeof one === 'object'))
  t.equal(budgets.inFlight, 24, 'while there is room nobody has to go')
  const last = take('last', 'shop') as Flight
  t.type(last, 'object')
  t.equal(budgets.inFlight, 24)
  t.equal(last.reserve(1n), undefined)
  t.ok(last.begin(), 'and is settled')
  const gone = held.filter((one) => one.reserve(1n) === 'in_flight')
  t.equal(gone.length, 1)
  t.notOk(gone[0]!.begin(), 'what gave way is not')
  gone[0]!.refused()
  t.equal(budgets.isSpent('paid-0'), false, 'and is no failure of its payer')
  t.end()
})

t.test(
  'of those who are looked at for long the payer with most of them gives way, to one with fewer',
  (t) => {
    const anns = names('ann', 20)
    const { clock, budgets, take } = stage('greedy', ...anns)
    const greedy = names('store', 4).map((store) => take('greedy', store) as Flight)
    const once = anns.slice(0, 8).map((payer) => take(payer, `${payer}’s`) as Flight)
    // From here on a verified payment would give way, so there is as much room again.
    clock.ms += 5_000
    once.push(...anns.slice(8).map((payer) => take(payer, `${payer}’s`) as Flight))
    t.equal(budgets.inFlight, 24)
    clock.ms += 5_000
    t.type(take('new-0', 'new'), 'object')
    t.type(take('new-1', 'newer'), 'object')
    t.equal(take('greedy', 'store-4'), 'in_flight', 'who has more throws out nobody')
    t.equal(budgets.inFlight, 24)
    t.equal(greedy.filter((one) => one.begin()).length, 2)
    t.ok(
      once.every((one) => one.begin()),
      'who has one keeps it while another has more',
    )
    t.end()
  },
)

t.test('whom nobody knows gives way at once only while those who have paid have less than half', (t) => {
  const paid = names('paid', 14)
  const { budgets, clock, take } = stage(...paid)
  const known = paid.slice(0, 12).map((payer) => take(payer, `${payer}’s`))
  clock.ms += 5_000
  const fresh = names('new', 12).map((payer) => take(payer, `${payer}’s`) as Flight)
  t.equal(budgets.inFlight, 24)
  for (const payer of paid.slice(12)) t.type(take(payer, `${payer}’s`), 'object')
  t.ok(
    fresh.every((one) => one.begin()),
    'however many come that have paid once',
  )
  t.equal(known.filter((one) => (one as Flight).begin()).length, 10)
  t.end()
})
