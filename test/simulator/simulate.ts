import assert from 'node:assert/strict'
import { paymentStates } from '../../core/domain/payment.ts'
import { judge, judgeTakeover } from './judge.ts'
import { judgeSessions } from './judgeSessions.ts'
import type { Plant } from './plant.ts'
import { refund } from './refund.ts'
import { Scheduler } from './scheduler.ts'
import { comeBackToSessions, openSessions, sessionActs } from './sessionActs.ts'
import { type InlineSqlite, openMemoryStore } from './store.ts'
import { closedStates, PRICE, type Signed, World } from './world.ts'

/** One seed in so many runs on the statements of SQLite; the others on the store in memory, whose power can be cut. */
const SQLITE_EVERY = 20

export interface SimulateOptions {
  /** For the seeds that run on SQLite; without it all run in memory. */
  readonly sqlite?: InlineSqlite
  readonly plant?: Plant
  /** Keeps what happened, for {@link SeedFailed.trace}. */
  readonly isTraced?: boolean
}

/** A seed that did not hold what is promised. Run it again to see the same. */
export class SeedFailed extends Error {
  readonly trace: readonly string[]
  constructor(seed: number, cause: unknown, trace: readonly string[]) {
    super(`seed ${seed}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
    this.trace = trace
  }
}

/**
 * Runs one seed: two processes on one store, whose clocks step and who freeze, die and lose their power; a chain that
 * loses blocks, and observers on it; buyers who call, repeat, leave, come back and try one payment on two things; sellers
 * who fail, and who pay back. One in three has payment sessions, paid by x402 and by plain transfers, confirmed by name or by a
 * look, canceled and expired. Then all is well again, and the books are judged.
 *
 * @returns what happened, where it is traced
 * @throws {SeedFailed}
 */
export async function simulate(seed: number, options: SimulateOptions = {}): Promise<readonly string[]> {
  const { sqlite, plant, isTraced = false } = options
  const scheduler = new Scheduler(seed)
  const world = new World(scheduler, plant, isTraced)
  const giveBack = scheduler.takeTimers()
  try {
    world.store =
      sqlite !== undefined && seed % SQLITE_EVERY === 0
        ? sqlite.begin(world.clocks)
        : await openMemoryStore(world.clocks)
    const payments = sign(world)
    await openSessions(world)
    world.start(0)
    world.start(1)
    keepFlushing(world)
    await scheduler.until(200)
    await trouble(world, payments)
    await recover(world, payments)
    await comeBack(world, payments)
    await judge(world, payments)
    await judgeSessions(world)
    return world.trace ?? []
  } catch (error) {
    throw new SeedFailed(seed, error, world.trace ?? [])
  } finally {
    giveBack()
    // Whoever waits for something outside gets their turn between two seeds.
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** A few payments, of wallets with money for all of them, or for some. */
function sign(world: World): Signed[] {
  const { scheduler, chain } = world
  const count = scheduler.between(1, 4)
  const isShared = scheduler.chance(0.4)
  const payments = Array.from({ length: count }, (_, i) => {
    const payer = `0x${(isShared ? 1 : i + 1).toString(16).padStart(40, '2')}`
    const validForMs = scheduler.pick([25_000, 60_000, 120_000, 300_000])
    return world.sign(`${scheduler.seed}-${i}`, payer, scheduler.chance(0.6) ? 0 : 1, validForMs)
  })
  for (const payer of new Set(payments.map((one) => one.payer))) {
    const needed = payments.filter((one) => one.payer === payer).length
    chain.topUp(payer, PRICE * (scheduler.chance(0.5) ? needed : scheduler.between(1, needed)))
  }
  return payments
}

/** What a store does by itself: what is visible is on disk after a second. */
function keepFlushing(world: World): void {
  world.scheduler.at(1_000, null, () => {
    world.store.flush()
    keepFlushing(world)
  })
}

/** What may happen, and how often in a seed of middling trouble. */
const acts: readonly [
  weight: number,
  act: (world: World, payment: Signed, payments: readonly Signed[]) => void,
][] = [
  [42, (world, payment) => ask(world, payment, payment.link, '')],
  [5, (world, payment) => ask(world, payment, payment.link, '/else')],
  [3, (world, payment) => ask(world, payment, 1 - payment.link, '')],
  [10, hangUp],
  [5, (world) => world.kill(world.scheduler.pick(world.processes))],
  [3, (world) => world.powerCut()],
  [6, (world) => world.freeze(world.scheduler.pick(world.processes), world.scheduler.between(1_000, 60_000))],
  [5, setClock],
  [5, ({ chain, scheduler }) => chain.reorganise(scheduler.between(1, 5))],
  [
    4,
    ({ chain, scheduler }, _, all) =>
      chain.bring(all.filter(() => scheduler.chance(0.6)).map(({ key }) => key)),
  ],
  [3, ({ chain }, { payer }) => chain.topUp(payer, PRICE)],
  [4, payBack],
  [5, (world) => world.troubleStore()],
  ...sessionActs,
]

async function trouble(world: World, payments: readonly Signed[]): Promise<void> {
  const { scheduler } = world
  const endMs = scheduler.nowMs + scheduler.between(8_000, 40_000)
  // Each seed has a mixture of its own: faults hide one another.
  const mixture = acts.map(
    ([weight, act], i) => [weight * (i === 0 ? 1 : scheduler.pick([0, 0.5, 1, 3])), act] as const,
  )
  const total = mixture.reduce((sum, [weight]) => sum + weight, 0)
  while (scheduler.nowMs < endMs) {
    let dice = scheduler.random() * total
    const chosen = mixture.find(([weight]) => (dice -= weight) < 0) ?? mixture[0]!
    chosen[1](world, scheduler.pick(payments), payments)
    // Most come in a rush, as buyers and troubles do.
    const pauseMs = scheduler.chance(0.5) ? scheduler.between(0, 150) : scheduler.between(0, 4_000)
    await scheduler.until(scheduler.nowMs + pauseMs)
    assert.equal(world.misuse, undefined)
  }
}

function hangUp({ scheduler, asked }: World): void {
  if (asked.length === 0) return
  const { door, process } = scheduler.pick(asked)
  if (!process.isDead) scheduler.as(process, () => door.hangUp())
}

function setClock({ scheduler, processes }: World): void {
  scheduler.pick(processes).clockAheadMs += scheduler.pick([-600_000, -11_000, 11_000, 600_000])
}

function payBack(world: World, payment: Signed): void {
  const process = world.scheduler.pick(world.processes)
  void world.scheduler.as(process, () => refund(world, process, payment))
}

function ask(world: World, payment: Signed, link: number, path: string): void {
  const { scheduler } = world
  const asked = world.ask(payment, link, path, scheduler.pick(world.processes))
  if (asked === undefined || !scheduler.chance(0.25)) return
  const { process, door } = asked
  scheduler.at(scheduler.between(0, 10_000), process, () => door.hangUp())
}

/** All is well from here on, but for one process that dies as the last thing: its rows are taken up within 30 s. */
async function recover(world: World, payments: readonly Signed[]): Promise<void> {
  const { scheduler } = world
  if (scheduler.chance(0.3)) world.kill(scheduler.pick(world.processes))
  world.calm()
  for (const [place, process] of world.processes.entries()) if (process.isDead) world.start(place)
  await scheduler.until(scheduler.nowMs + 30_000)
  await judgeTakeover(world, payments)
  for (const process of world.processes) process.stopLoops()
}

/** What buyers have asked for or mean to, each once. */
function allCalls({ asked }: World, payments: readonly Signed[]) {
  const home = payments.map((payment) => ({ payment, link: payment.link, path: '' }))
  const calls = [...home, ...asked].map(({ payment, link, path }) => ({ payment, link, path }))
  return new Map(calls.map((call) => [`${call.payment.nonce} ${call.link}${call.path}`, call]))
}

/** Every buyer asks once more, until there is nothing to wait for; meanwhile recovery does what is due. */
async function comeBack(world: World, payments: readonly Signed[]): Promise<void> {
  const { scheduler } = world
  let open = allCalls(world, payments)
  for (let turn = 0; ; turn++) {
    assert.ok(turn < 40, `after ${turn} turns something was due or open still`)
    // Leases are renewed before anybody looks: nobody stands still here.
    await scheduler.until(scheduler.nowMs + (turn < 6 ? 5_000 : 40_000))
    for (const process of world.processes) {
      const recovery = process.recovery!
      let isDone = false
      const round = async () => {
        await process.payments!.leaveStrays()
        await recovery.round()
      }
      void scheduler.as(process, round).then(() => (isDone = true))
      await scheduler.until(scheduler.nowMs + 20_000, () => isDone)
    }
    for (const [name, { payment, link, path }] of open) {
      const asked = world.ask(payment, link, path, scheduler.pick(world.processes))!
      await scheduler.until(scheduler.nowMs + 60_000, () => asked.door.got !== undefined)
      const status = asked.door.got?.status ?? 0
      if ([200, 400, 402, 409].includes(status)) open.delete(name)
      else assert.equal(status, 503, `an honest call was answered ${status} ${asked.door.got?.body}`)
    }
    if (!(await comeBackToSessions(world)) || open.size > 0) continue
    // Whoever had the last word writes it down.
    await scheduler.until(scheduler.nowMs + 1_000)
    if (await isAnythingDue(world)) continue
    // A call of before, which waited for its turn until now, may buy something for which its buyer has to come.
    const all = [...payments, ...world.signedForSessions, ...world.sent]
    const records = await Promise.all(all.map(({ key }) => world.store.books.find(key)))
    if (records.every((record) => record === undefined || closedStates.includes(record.state))) return
    open = allCalls(world, payments)
  }
}

/** Whether anybody has to look at any row, now or ever. */
async function isAnythingDue({ store, scheduler }: World): Promise<boolean> {
  const nowMs = scheduler.nowMs
  // Later than any row may be due; nothing happens meanwhile.
  scheduler.nowMs += 600_001
  const due = await store.books.due({ states: paymentStates, limit: 1 })
  scheduler.nowMs = nowMs
  return due.length > 0
}
