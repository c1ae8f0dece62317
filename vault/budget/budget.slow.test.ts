import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { SQLOutputValue } from 'node:sqlite'
import { setTimeout as wait } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { editDatabase, type OpenJournals, openJournals } from '../../test/helpers/vault/journals.ts'
import { ManualClock } from '../../test/helpers/vault/manualClock.ts'
import { databaseFileIn } from '../disk/databaseFile.ts'
import { SealedRows } from '../disk/sealedRows.ts'
import { VaultDatabase } from '../disk/vaultDatabase.ts'
import type { BudgetLimit, BudgetSubject, ReserveRequest } from '../ports/budget.ts'
import { JournaledBudget } from './journaledBudget.ts'

const DAY_MS = 86_400_000
const usd = 'eip155:8453/erc20:0x01'
const sol = 'solana:1/slip44:501'

type Opened = JournaledBudget & Pick<OpenJournals, 'end'>

function create(folder: string, clock = new ManualClock(), wasReleased = true): Opened {
  const { budget, end } = openJournals(folder, { clock, wasReleased })
  return Object.assign(budget, { end })
}

async function reopen(budget: Opened, folder: string, clock: ManualClock): Promise<Opened> {
  await budget.end()
  return create(folder, clock)
}

function request(id: string, amount: bigint, more: Partial<ReserveRequest> = {}): ReserveRequest {
  return { id, agentId: 'ada', spends: [{ asset: usd, amount, recipient: 'bob' }], limits: [], ...more }
}

const vault: BudgetSubject = { kind: 'vault' }
const ada: BudgetSubject = { kind: 'agent', agentId: 'ada' }
const bob: BudgetSubject = { kind: 'recipient', recipient: 'bob' }

t.test('a spend counts for its agent, the vault and its recipient, in its own asset', async (t) => {
  const budget = create(t.testdir())
  const spends = [
    { asset: usd, amount: 5n, recipient: 'bob' },
    { asset: usd, amount: 2n, recipient: 'eve' },
    { asset: sol, amount: 9n },
  ]
  t.match(budget.reserve(request('a', 0n, { spends })), { ok: true })
  budget.commit('a')
  t.match(budget.used(ada, usd), { spent: 7n, reserved: 0n })
  t.match(budget.used(vault, usd), { spent: 7n })
  t.match(budget.used(bob, usd), { spent: 5n })
  t.match(budget.usedAll(vault), [
    { asset: usd, spent: 7n },
    { asset: sol, spent: 9n },
  ])
  t.strictSame(budget.usedAll({ kind: 'agent', agentId: 'eve' }), [])
  await budget.end()
})

t.test('limits a transaction and a day bind to the unit; a refused request counts nothing', async (t) => {
  const budget = create(t.testdir())
  const limits: BudgetLimit[] = [
    { subject: ada, asset: usd, perTransaction: 10n, perDay: 25n },
    { subject: bob, asset: usd, perDay: 22n },
    { subject: ada, asset: sol, perTransaction: 0n },
  ]
  const reserve = (id: string, amount: bigint) => budget.reserve(request(id, amount, { limits }))
  t.match(reserve('a', 11n), {
    ok: false,
    code: 'BUDGET_EXCEEDED_TX',
    limit: 10n,
    requested: 11n,
    subject: ada,
  })
  t.match(reserve('b', 10n), { ok: true })
  t.match(reserve('c', 10n), { ok: true })
  t.match(reserve('d', 6n), { ok: false, code: 'BUDGET_EXCEEDED_DAILY', limit: 25n, used: 20n, subject: ada })
  t.match(reserve('d', 3n), { ok: false, code: 'BUDGET_EXCEEDED_DAILY', limit: 22n, used: 20n, subject: bob })
  t.match(budget.check(request('d', 3n, { limits })), { ok: false, code: 'BUDGET_EXCEEDED_DAILY' })
  t.match(reserve('d', 2n), { ok: true, id: 'd' })
  t.match(budget.used(ada, usd), { spent: 0n, reserved: 22n, resetsAt: '2026-03-02T00:00:00.000Z' })
  const twice = [usd, usd].map((asset) => ({ asset, amount: 6n, recipient: 'cy' }))
  const split = budget.reserve(request('e', 0n, { limits, spends: twice }))
  t.match(
    split,
    { ok: false, code: 'BUDGET_EXCEEDED_TX', requested: 12n },
    'two sends in one count as their sum',
  )
  await budget.end()
})

t.test('released amounts are free again, and nothing is decided twice', async (t) => {
  const budget = create(t.testdir())
  budget.reserve(request('a', 5n))
  await budget.release('a')
  t.match(budget.used(vault, usd), { spent: 0n, reserved: 0n })
  await t.rejects(budget.release('a'), { code: 'NOT_FOUND' })
  t.throws(() => budget.commit('a'), { code: 'NOT_FOUND' })
  budget.reserve(request('b', 5n))
  budget.commit('b')
  await t.rejects(budget.release('b'), { code: 'NOT_FOUND' })
  for (const amount of [-1n, 2n ** 256n, 1.5 as never, '5' as never]) {
    t.throws(() => budget.reserve(request('c', amount)), { code: 'VALIDATION_ERROR' })
  }
  await budget.end()
})

t.test('the same id counts once, also after a restart, and after a release it is free', async (t) => {
  const folder = t.testdir()
  const clock = new ManualClock()
  let budget = create(folder, clock)
  t.match(budget.reserve(request('a', 5n)), { ok: true, isRepeat: false })
  t.match(budget.reserve(request('a', 5n)), { ok: true, isRepeat: true }, 'open')
  budget.commit('a')
  t.match(budget.reserve(request('a', 5n)), { ok: true, isRepeat: true }, 'committed')
  t.match(budget.used(vault, usd), { spent: 5n, reserved: 0n })
  budget = await reopen(budget, folder, clock)
  t.match(budget.reserve(request('a', 5n)), { ok: true, isRepeat: true }, 'read back')
  t.match(budget.reserve(request('b', 5n)), { ok: true, isRepeat: false })
  await budget.release('b')
  t.match(budget.reserve(request('b', 5n)), { ok: true, isRepeat: false }, 'nothing of it was spent')
  t.match(budget.used(vault, usd), { spent: 5n, reserved: 5n })
  await budget.end()
})

t.test('a new day begins at midnight UTC, and turning the clock back refills nothing', async (t) => {
  const folder = t.testdir()
  const clock = new ManualClock(Date.parse('2026-03-01T23:59:59.999Z'))
  let budget = create(folder, clock)
  const limits = [{ subject: vault, asset: usd, perDay: 10n }]
  const tryTo = (id: string) => budget.reserve(request(id, 10n, { limits })).ok
  t.ok(tryTo('a'))
  t.notOk(tryTo('b'))
  clock.pass(1)
  t.match(budget.used(vault, usd), { spent: 0n, reserved: 0n, resetsAt: '2026-03-03T00:00:00.000Z' })
  t.ok(tryTo('b'))
  await budget.release('a')
  t.match(budget.used(vault, usd), { reserved: 10n }, "yesterday's release gives nothing to today")
  clock.pass(-DAY_MS)
  budget = await reopen(budget, folder, clock)
  t.notOk(tryTo('c'), 'the day before again')
  clock.pass(-30 * DAY_MS)
  t.notOk(tryTo('c'))
  await budget.resetDay()
  t.notOk(tryTo('c'), 'what was used goes along')
  budget.commit('b')
  clock.pass(DAY_MS)
  t.ok(tryTo('c'), 'and the days count from there')
  budget = await reopen(budget, folder, clock)
  t.notOk(tryTo('d'))
  await budget.end()
})

t.test('reservations of another day that meets again do not count twice or below zero', async (t) => {
  const folder = t.testdir()
  const clock = new ManualClock()
  let budget = create(folder, clock)
  budget.reserve(request('old', 5n))
  clock.pass(4 * DAY_MS)
  budget.reserve(request('new', 3n))
  clock.pass(-4 * DAY_MS)
  await budget.resetDay()
  budget = await reopen(budget, folder, clock)
  await budget.release('old')
  t.match(budget.used(vault, usd), { spent: 0n, reserved: 3n })
  await budget.release('new')
  t.match(budget.used(vault, usd), { spent: 0n, reserved: 0n })
  await budget.end()
})

type Step =
  | { readonly kind: 'reserve'; readonly agent: number; readonly asset: number; readonly amount: bigint }
  | { readonly kind: 'decide'; readonly which: number; readonly commit: boolean }
  | { readonly kind: 'reopen' }
  | { readonly kind: 'pass'; readonly days: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('reserve' as const),
      agent: fc.nat(1),
      asset: fc.nat(1),
      amount: fc.bigInt({ min: 0n, max: 40n }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('decide' as const), which: fc.nat(9), commit: fc.boolean() }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'reopen' } as const) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('pass' as const), days: fc.integer({ min: -2, max: 2 }) }),
  },
)

t.test('it agrees with a model that keeps every reservation for ever', async (t) => {
  const assets = [usd, sol]
  const agents = ['ada', 'eve']
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 50 }), async (steps) => {
      const clock = new ManualClock()
      const folder = mkdtempSync(join(tmpdir(), 'vault-budget-'))
      let budget = create(folder, clock)
      const all: { id: string; day: number; agent: string; asset: string; amount: bigint; state: string }[] =
        []
      let latest = 0
      const today = () => Math.max(latest, Math.floor(clock.now() / DAY_MS))
      const usedBy = (asset: string, agent?: string) =>
        all
          .filter((r) => r.state !== 'released' && r.day === today() && r.asset === asset)
          .filter((r) => agent === undefined || r.agent === agent)
          .reduce((sum, r) => sum + r.amount, 0n)
      for (const taken of steps) {
        if (taken.kind === 'pass') clock.pass(taken.days * DAY_MS)
        if (taken.kind === 'reopen') {
          budget = await reopen(budget, folder, clock)
          t.strictSame(
            budget.unresolved(),
            all.filter((r) => r.state === 'open').map((r) => r.id),
          )
        }
        if (taken.kind === 'decide') {
          const open = all.filter((r) => r.state === 'open')
          const chosen = open[taken.which % Math.max(1, open.length)]
          if (chosen === undefined) continue
          chosen.state = taken.commit ? 'committed' : 'released'
          if (taken.commit) budget.commit(chosen.id)
          else await budget.release(chosen.id)
        }
        if (taken.kind === 'reserve') {
          const [agent, asset] = [agents[taken.agent]!, assets[taken.asset]!]
          const limits: BudgetLimit[] = [
            { subject: { kind: 'agent', agentId: agent }, asset, perTransaction: 30n, perDay: 60n },
            { subject: vault, asset, perDay: 90n },
          ]
          const mayIt =
            taken.amount <= 30n &&
            usedBy(asset, agent) + taken.amount <= 60n &&
            usedBy(asset) + taken.amount <= 90n
          const id = `r${all.length}`
          const spends = [{ asset, amount: taken.amount }]
          const response = budget.reserve({ id, agentId: agent, spends, limits })
          // An amount of zero is within every limit.
          if (response.ok !== (mayIt || taken.amount === 0n)) return false
          if (!response.ok) continue
          latest = today()
          all.push({ id, day: latest, agent, asset, amount: taken.amount, state: 'open' })
        }
        for (const asset of assets) {
          for (const agent of agents) {
            const use = budget.used({ kind: 'agent', agentId: agent }, asset)
            if (use.spent + use.reserved !== usedBy(asset, agent)) return false
          }
        }
      }
      await budget.end()
      rmSync(folder, { recursive: true })
      return true
    }),
    { numRuns: 40 },
  )
})

const spender = `
import { openJournals } from ${JSON.stringify(import.meta.resolve('../../test/helpers/vault/journals.ts'))}
const [folder, round] = process.argv.slice(1)
const { budget } = openJournals(folder, { wasReleased: false })
let n = 0
const spend = async () => {
  for (;;) {
    const id = round + '.' + n++
    const answer = budget.reserve({ id, agentId: 'ada', spends: [{ asset: 'usd', amount: 1n }],
      limits: [{ subject: { kind: 'vault' }, asset: 'usd', perDay: 2000n }] })
    if (!answer.ok) { process.stdout.write('full\\n'); return }
    await answer.durable
    process.stdout.write(id + '\\n')
    budget.commit(id)
  }
}
for (let i = 0; i < 16; i++) spend()
`

t.test(
  'killed again and again in the middle of spending, it forgets nothing that left and never overspends',
  async (t) => {
    const folder = t.testdir()
    await create(folder).end()
    const left = new Set<string>()
    let isFull = false
    for (let round = 0; !isFull && round < 40; round++) {
      const child = spawn(process.execPath, ['--input-type=module', '-e', spender, folder, String(round)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      let seen = 0
      for await (const line of createInterface({ input: child.stdout })) {
        if (line === 'full') isFull = true
        else left.add(line)
        if (++seen === 90 + round * 7 || isFull) child.kill('SIGKILL')
      }
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
      const budget = create(folder, new ManualClock(), false)
      const { spent, reserved } = budget.used(vault, 'usd')
      t.ok(spent + reserved >= BigInt(left.size), `${left.size} left, ${spent} + ${reserved} counted`)
      t.ok(spent + reserved <= 2000n)
      await budget.end()
    }
    t.ok(isFull, 'the budget was used up')
    t.ok(left.size <= 2000, `${left.size} of 2000 left`)
  },
)

t.test(
  'a commit that the disk refuses is written with the next reservation, and not tried before',
  async (t) => {
    const database = VaultDatabase.create(t.testdir(), () => true)
    const budget = new JournaledBudget(database, new ManualClock(), () => {})
    const records = { reset: () => {}, replay: () => {} }
    const rows = new SealedRows(database, { records, budget: budget.reader })
    let isFull = false
    let refused = 0
    const sealing = () => {
      if (!isFull) return
      refused++
      throw new Error('the disk is full')
    }
    database.join({ sealing })
    rows.create({ vaultId: 'vlt_1', lineage: 'one', key: Buffer.alloc(32, 1) })
    budget.open(rows)
    const reserve = async (id: string) => {
      const reserved = budget.reserve(request(id, 1n))
      if (reserved.ok) await reserved.durable
    }
    await reserve('a')
    isFull = true
    budget.commit('a')
    await wait(200)
    t.equal(refused, 1)
    await t.rejects(reserve('b'), /disk is full/)
    t.equal(refused, 2)
    t.match(budget.used(vault, usd), { spent: 0n, reserved: 1n })
    isFull = false
    await reserve('c')
    t.match(budget.used(vault, usd), { spent: 1n, reserved: 1n })
    t.equal(budget.isCommitted('a'), true)
    database.close()
  },
)

t.test('the journal does not grow with history', async (t) => {
  const folder = t.testdir()
  const clock = new ManualClock()
  const budget = create(folder, clock)
  let largest = 0
  for (let day = 0; day < 30; day++) {
    for (let i = 0; i < 40; i++) {
      const batch = Array.from({ length: 25 }, (_, j) => budget.reserve(request(`${day}.${i}.${j}`, 1n)))
      await Promise.all(batch.map((response) => response.ok && response.durable))
      for (const response of batch) if (response.ok) budget.commit(response.id)
    }
    largest = Math.max(largest, statSync(databaseFileIn(folder)!).size)
    clock.pass(DAY_MS)
  }
  await budget.end()
  t.ok(largest < 3 << 20, `${largest} bytes at most for 30,000 reservations`)
})

t.test('a changed byte of a row of the journal is noticed', async (t) => {
  const folder = t.testdir()
  const budget = create(folder)
  budget.reserve(request('a', 5n))
  budget.commit('a')
  await budget.end()
  const rows = editDatabase(folder, (db) => db.prepare('SELECT id, sealed FROM budget').all())
  t.equal(rows.length, 2)
  const put = (id: SQLOutputValue, sealed: Uint8Array) =>
    editDatabase(folder, (db) => db.prepare('UPDATE budget SET sealed = ? WHERE id = ?').run(sealed, id))
  for (const row of rows) {
    const whole = Buffer.from(row['sealed'] as Uint8Array)
    for (let at = 0; at < whole.length; at += 7) {
      const changed = Buffer.from(whole)
      changed[at]! ^= 0x04
      put(row['id']!, changed)
      t.throws(() => create(folder), { code: 'VAULT_CORRUPT' }, `byte ${at}`)
    }
    put(row['id']!, whole)
  }
  await create(folder).end()
})
