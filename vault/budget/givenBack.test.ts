import t from 'tap'
import { openJournals } from '../../test/helpers/vault/journals.ts'
import { ManualClock } from '../../test/helpers/vault/manualClock.ts'
import type { BudgetSubject } from '../ports/budget.ts'
import type { JournaledBudget } from './journaledBudget.ts'

const DAY_MS = 86_400_000
const usd = 'eip155:8453/erc20:0x01'
const vault: BudgetSubject = { kind: 'vault' }
const ada: BudgetSubject = { kind: 'agent', agentId: 'ada' }
const bob: BudgetSubject = { kind: 'recipient', recipient: 'bob' }
const subjects = [ada, vault, bob]
const claim = { nonce: '7' }

const reserve = (budget: JournaledBudget, id: string, amount: bigint, perDay?: bigint) =>
  budget.reserve({
    id,
    agentId: 'ada',
    spends: [{ asset: usd, amount, recipient: 'bob' }],
    limits: perDay === undefined ? [] : [{ subject: ada, asset: usd, perDay }],
  })

/** Signs a payment of which part may be given back. */
function pay(budget: JournaledBudget, id: string, amount: bigint): void {
  reserve(budget, id, amount)
  budget.notePartial(id, claim)
  budget.commit(id)
}

const usesOf = (budget: JournaledBudget) =>
  subjects.map((subject) => {
    const { spent, reserved, givenBack } = budget.used(subject, usd)
    return [spent, reserved, givenBack]
  })
const all = (spent: bigint, givenBack: bigint) => subjects.map(() => [spent, 0n, givenBack])

t.test(
  'what was not charged can be spent again by all whose budget counted it, also after a restart',
  async (t) => {
    const folder = t.testdir()
    const clock = new ManualClock()
    const first = openJournals(folder, { clock })
    pay(first.budget, 'a', 10n)
    pay(first.budget, 'b', 5n)
    t.strictSame(first.budget.partial(), [
      { id: 'a', claim },
      { id: 'b', claim },
    ])
    t.match(reserve(first.budget, 'c', 10n, 20n), { ok: false, used: 15n })
    await first.budget.giveBack('a', 8n)
    t.strictSame(usesOf(first.budget), all(7n, 8n))
    t.match(first.budget.usedAll(ada), [{ asset: usd, spent: 7n, givenBack: 8n }])
    await first.end()

    const again = openJournals(folder, { clock })
    t.strictSame(usesOf(again.budget), all(7n, 8n))
    t.strictSame(again.budget.partial(), [{ id: 'b', claim }])
    t.match(reserve(again.budget, 'd', 14n, 20n), { ok: false, used: 7n })
    t.match(reserve(again.budget, 'c', 13n, 20n), { ok: true })
    await again.end()
  },
)

t.test('a payment gives back once, and never more than it counted', async (t) => {
  const folder = t.testdir()
  const clock = new ManualClock()
  const first = openJournals(folder, { clock })
  pay(first.budget, 'a', 10n)
  pay(first.budget, 'b', 10n)
  await first.budget.giveBack('a', 1_000n)
  t.strictSame(usesOf(first.budget), all(10n, 10n))
  t.equal(first.budget.giveBack('a', 5n), undefined)
  t.equal(first.budget.giveBack('unknown', 5n), undefined)
  await first.budget.giveBack('b', 0n)
  t.equal(first.budget.giveBack('b', 5n), undefined, 'the whole amount was charged')
  await first.end()
  const again = openJournals(folder, { clock })
  t.equal(again.budget.giveBack('a', 5n), undefined)
  t.strictSame(usesOf(again.budget), all(10n, 10n))
  await again.end()
})

t.test('only a committed payment gives back, and a released one never does', async (t) => {
  const folder = t.testdir()
  const clock = new ManualClock()
  const first = openJournals(folder, { clock })
  const { budget } = first
  budget.notePartial('later', claim)
  reserve(budget, 'later', 3n)
  budget.commit('later')
  reserve(budget, 'open', 10n)
  budget.notePartial('open', claim)
  reserve(budget, 'released', 10n)
  budget.notePartial('released', claim)
  await budget.release('released')
  t.strictSame(budget.partial(), [])
  for (const id of ['later', 'open', 'released']) t.equal(budget.giveBack(id, 1n), undefined, id)
  await first.end()

  // A kill after the signature leaves the reservation open, and the vault commits it at the next start.
  const again = openJournals(folder, { clock })
  t.strictSame(again.budget.unresolved(), ['open'])
  again.budget.commit('open')
  t.strictSame(again.budget.partial(), [{ id: 'open', claim }])
  await again.budget.giveBack('open', 4n)
  t.strictSame(usesOf(again.budget), all(9n, 4n))
  await again.end()
})

t.test('a day that is over gets nothing back, and the next day has its own sum', async (t) => {
  const clock = new ManualClock()
  const { budget, end } = openJournals(t.testdir(), { clock })
  pay(budget, 'a', 10n)
  pay(budget, 'b', 10n)
  await budget.giveBack('b', 3n)
  reserve(budget, 'asked', 10n)
  clock.pass(DAY_MS)
  t.strictSame(budget.partial(), [])
  t.equal(budget.giveBack('a', 10n), undefined)
  t.strictSame(usesOf(budget), all(0n, 0n))
  pay(budget, 'c', 2n)
  budget.notePartial('asked', claim)
  budget.commit('asked')
  t.equal(budget.giveBack('a', 10n), undefined)
  t.equal(budget.giveBack('asked', 10n), undefined, 'it counted on the day before')
  t.strictSame(usesOf(budget), all(2n, 0n))
  await end()
})

t.test(
  'amounts that move to another day with the clock are given back there, and nowhere else',
  async (t) => {
    const clock = new ManualClock()
    const { budget, end } = openJournals(t.testdir(), { clock })
    clock.wallMs += 3 * DAY_MS
    pay(budget, 'a', 10n)
    clock.wallMs -= 3 * DAY_MS
    await budget.resetDay()
    await budget.giveBack('a', 4n)
    t.strictSame(usesOf(budget), all(6n, 4n))
    pay(budget, 'b', 10n)
    clock.wallMs += 3 * DAY_MS
    pay(budget, 'c', 1n)
    t.equal(budget.giveBack('b', 10n), undefined)
    t.strictSame(usesOf(budget), all(1n, 0n))
    await end()
  },
)

t.test('totals that replace a long journal keep the open payments and what was given back', async (t) => {
  const folder = t.testdir()
  const clock = new ManualClock()
  const first = openJournals(folder, { clock })
  pay(first.budget, 'a', 10n)
  pay(first.budget, 'b', 10n)
  await first.budget.giveBack('b', 3n)
  reserve(first.budget, 'open', 2n)
  first.budget.notePartial('open', claim)
  // Each name is long, so that the journal is soon long enough.
  for (let i = 0; i < 4_000; i++) {
    reserve(first.budget, `${'x'.repeat(200)}${i}`, 1n)
    first.budget.commit(`${'x'.repeat(200)}${i}`)
  }
  await first.end()
  const again = openJournals(folder, { clock })
  t.strictSame(again.budget.partial(), [{ id: 'a', claim }])
  again.budget.commit('open')
  t.strictSame(
    again.budget.partial().map(({ id }) => id),
    ['a', 'open'],
  )
  await again.budget.giveBack('a', 10n)
  t.strictSame(usesOf(again.budget), all(4_009n, 13n))
  await again.end()
})

t.test('an agent with many payments fills no memory, and its oldest ones give nothing back', async (t) => {
  const { budget, end } = openJournals(t.testdir())
  for (let i = 0; i < 1_500; i++) pay(budget, `p${i}`, 1n)
  t.equal(budget.partial().length, 1_000)
  t.equal(budget.giveBack('p0', 1n), undefined)
  await budget.giveBack('p1499', 1n)
  t.strictSame(usesOf(budget), all(1_499n, 1n))
  await end()
})

t.test('an agent with many payments takes nothing from what another agent gets back', async (t) => {
  const folder = t.testdir()
  const clock = new ManualClock()
  const first = openJournals(folder, { clock })
  const spends = [{ asset: usd, amount: 5n, recipient: 'bob' }]
  first.budget.reserve({ id: 'other', agentId: 'eve', spends, limits: [] })
  first.budget.notePartial('other', claim)
  first.budget.commit('other')
  for (let i = 0; i < 1_500; i++) pay(first.budget, `p${i}`, 1n)
  await first.end()
  const { budget, end } = openJournals(folder, { clock })
  t.equal(budget.partial().length, 1_001)
  await budget.giveBack('other', 2n)
  t.match(budget.used({ kind: 'agent', agentId: 'eve' }, usd), { spent: 3n, givenBack: 2n })
  await end()
})
