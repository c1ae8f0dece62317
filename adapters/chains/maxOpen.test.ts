import t from 'tap'
import type { PaymentRecord } from '../../core/domain/payment.ts'
import { identityOf, limits, network, outcomes } from '../../test/helpers/chains/budgets.ts'
import { Budgets, type Flight } from './budgets.ts'

const most = 20_000

/** Budgets of a settler that pays no gas, and one payer that has paid before. */
function stage() {
  const budgets = new Budgets({ ...limits, maxGasPerStoreAndDay: null, network })
  let count = 0
  const begun = (payer: string) => {
    const identity = identityOf(payer)
    const flight = budgets.take(identity, 's')
    if (typeof flight === 'string') return flight
    flight.reserve(0n)
    flight.begin()
    return { ...identity, flight }
  }
  const leaveOpen = (payer = `fresh-${count++}`) => {
    const one = begun(payer)
    if (typeof one !== 'string') one.flight.end(outcomes.pending)
    return one
  }
  const known = begun('known')
  if (typeof known !== 'string') known.flight.end(outcomes.settled)
  const fill = (many: number, name?: (i: number) => string) => {
    for (let i = 0; i < many; i++) {
      const one = leaveOpen(name?.(i))
      if (typeof one === 'string') throw new Error(`${i} are open, and the next is refused: ${one}`)
    }
  }
  return { budgets, leaveOpen, fill, begun }
}

t.test(
  'of wallets that nobody knows so many payments are open at once, and those who have paid go on',
  (t) => {
    const { budgets, leaveOpen, fill } = stage()
    fill(most - 1)
    const last = leaveOpen()
    t.type(last, 'object')
    t.equal(leaveOpen(), 'in_flight')
    t.equal(budgets.inFlight, 0, 'although no place is taken')
    t.type(leaveOpen('known'), 'object')
    t.type(leaveOpen('known'), 'object', 'more than one as well')
    for (const one of [last, leaveOpen('known')]) {
      if (typeof one === 'string') throw new Error(one)
      const { key, payer } = one
      budgets.note({ key, payer, storeId: 's', state: 'pending' } as PaymentRecord, outcomes.settled)
    }
    t.equal(leaveOpen(), 'in_flight', 'two of those who have paid are open')
    t.end()
  },
)

t.test('what others have concluded makes room for the next', async (t) => {
  const { budgets, leaveOpen, fill } = stage()
  fill(most)
  t.equal(leaveOpen(), 'in_flight')
  await budgets.forgetConcluded(async ([key]) => [{ key, payer: 'x', state: 'delivered' } as PaymentRecord])
  t.type(leaveOpen(), 'object')
  t.equal(leaveOpen(), 'in_flight')
})

t.test('twice as many are open of those who have paid, and then one of each', (t) => {
  const { budgets, leaveOpen, fill, begun } = stage()
  const payers = Array.from({ length: most / 4 }, (_, i) => `payer-${i}`)
  for (const payer of payers) {
    const one = begun(payer)
    if (typeof one !== 'string') one.flight.end(outcomes.settled)
  }
  fill(most)
  fill(most - payers.length, (i) => payers[i % payers.length]!)
  fill(payers.length - 1, (i) => payers[i]!)
  t.type(leaveOpen(payers.at(-1)), 'object')
  t.equal(leaveOpen(payers[0]), 'payer_in_flight')
  const idle = leaveOpen('known')
  t.type(idle, 'object', 'who has none open gets one')
  t.equal(leaveOpen('known'), 'in_flight')
  t.equal(budgets.take(identityOf('new'), 's'), 'in_flight')
  t.end()
})

t.test('what stays open and keeps its place, as it can cost gas, is bounded by the places alone', (t) => {
  const budgets = new Budgets({ ...limits, maxInFlight: most + 2, maxGasPerStoreAndDay: null, network })
  for (let i = 0; i < most + 1; i++) {
    const flight = budgets.take(identityOf(`payer-${i}`), 's') as Flight
    flight.reserve(1n)
    flight.begin()
    flight.end(outcomes.pending)
  }
  t.type(budgets.take(identityOf('fresh'), 's'), 'object')
  t.end()
})
