import assert from 'node:assert/strict'
import { type PaymentRecord, paymentStates } from '../../core/domain/payment.ts'
import { runningJobs } from '../../core/jobs/job.ts'
import { ask, PRICE, type Signed, sign } from './buyers.ts'
import { channelActs, finishChannels, openChannels } from './channels/channelActs.ts'
import { judgeBooks } from './channels/judgeBooks.ts'
import { judgeChannels } from './channels/judgeChannels.ts'
import { judge, judgeTakeover } from './judge.ts'
import { judgeHolds, judgeRest } from './judgeRest.ts'
import type { Plant } from './plant.ts'
import { losesRefunds, refund, replaceRefunds } from './refund.ts'
import { Scheduler } from './scheduler.ts'
import { judgeSessions } from './sessions/judgeSessions.ts'
import { comeBackToSessions, openSessions, sessionActs } from './sessions/sessionActs.ts'
import type { SeedStores } from './store.ts'
import { judgeUse } from './use/judgeUse.ts'
import { FIRST_METERED, isMetered, isStreamedLink } from './use/metering.ts'
import { settlingAccount } from './wallets.ts'
import { closedStates, type Situation, World } from './world.ts'

/** One seed in so many has gateways that share a settling key, and the settler that has it. */
export const SHARED_EVERY = 5
/** One seed in so many has buyers whose clients give up soon and repeat their calls. */
const IMPATIENT_EVERY = 4
/** In one seed of so many a buyer gives each two of its payments one id. */
const NAMED_EVERY = 6
/** How often such a client repeats a call at most. */
const MAX_REPEATS = 4
/** In one seed of so many payers take back on chain what they have signed. */
const CANCELLED_EVERY = 4
/** Longer than any pause between two looks for what left the chain, in ms. */
const LONGEST_PAUSE_MS = 610_000

export interface SimulateOptions {
  readonly stores: SeedStores
  readonly plant?: Plant
  /** Keeps what happened, for {@link SeedFailed.trace}. */
  readonly isTraced?: boolean
  /** Hears what the seed has shown, once it is over. */
  readonly onSeen?: (seen: ReadonlySet<Situation>) => void
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
 * look, canceled and expired. One in five sells by use: sellers say less, more, nothing or nonsense, or break off in a stream. Another
 * one in five has payment channels, which two gateways are asked for at once, with deposits that leave the chain, withdrawals and
 * refunds. Then all is well again, and the ledger is judged.
 *
 * @returns what happened, where it is traced
 * @throws {SeedFailed}
 */
export async function simulate(seed: number, options: SimulateOptions): Promise<readonly string[]> {
  const { stores, plant, isTraced = false } = options
  const scheduler = new Scheduler(seed)
  const world = new World(scheduler, seed % SHARED_EVERY === 1, plant, isTraced)
  const restoreTimers = scheduler.takeTimers(() => world.clocks.wall.now())
  try {
    world.store = stores.begin(world.clocks)
    const payments = signAll(world)
    await openSessions(world)
    const gateways = world.isShared ? scheduler.between(2, 3) : 2
    for (let place = 0; place < gateways; place++) world.start(place)
    keepFlushing(world)
    // A key is not settled with before its holder has looked at the chain.
    await scheduler.until(world.isShared ? 1_500 : 200)
    openChannels(world)
    await trouble(world, payments)
    await recover(world, payments)
    await finishChannels(world)
    await retryPayment(world, payments)
    await waitDays(world)
    await judge(world, payments)
    await judgeUse(world, payments)
    await judgeChannels(world)
    await judgeBooks(world, payments)
    await judgeSessions(world)
    await judgeRest(world)
    await judgeHolds(world, payments)
    options.onSeen?.(world.seen)
    return world.trace ?? []
  } catch (error) {
    throw new SeedFailed(seed, error, world.trace ?? [])
  } finally {
    restoreTimers()
    // Those of processes that were killed.
    runningJobs.clear()
    // Work that waits for something outside gets its turn between two seeds.
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** A few payments, of wallets with money for all of them, or for some; as many as a transaction takes, now and then. */
function signAll(world: World): Signed[] {
  const { scheduler, chain, isShared: isOneKey } = world
  const most = isOneKey ? scheduler.pick([4, 10, 10, 40]) : 4
  const count = scheduler.between(1, most)
  const isNamed = scheduler.seed % NAMED_EVERY === 4
  const isShared = scheduler.chance(isOneKey ? 0.2 : 0.4) || isNamed
  const payments = Array.from({ length: count }, (_, i) => {
    const validForMs = scheduler.pick([25_000, 60_000, 120_000, 300_000])
    const settle = scheduler.chance(0.6) ? 0 : 1
    const link = isMetered(scheduler.seed) ? FIRST_METERED + settle : settle
    const isGivenUp = scheduler.seed % IMPATIENT_EVERY === 2 && i % 2 === 0
    const identifier = isNamed ? `an-id-of-seed-${scheduler.seed}-${Math.floor(i / 2)}` : undefined
    const scheme = isMetered(scheduler.seed) ? 'upto' : 'exact'
    const more = { link, validForMs, isGivenUp, identifier, scheme } as const
    return sign(world, `${scheduler.seed}-${i}`, `buyer ${isShared ? 0 : i}`, more)
  })
  if (isNamed) world.named.push(...payments)
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

type Act = readonly [
  weight: number,
  act: (world: World, payment: Signed, payments: readonly Signed[]) => void,
]

/** What may happen, and how often in a seed of middling trouble. */
const acts: readonly Act[] = [
  [42, (world, payment) => queryOne(world, payment, payment.link, '')],
  [5, (world, payment) => queryOne(world, payment, payment.link, '/else')],
  [3, (world, payment) => queryOne(world, payment, payment.link ^ 1, '')],
  [10, abort],
  [5, (world) => world.kill(world.scheduler.pick(world.processes))],
  [3, (world) => world.powerCut()],
  [6, (world) => world.freeze(world.scheduler.pick(world.processes), world.scheduler.between(1_000, 60_000))],
  [5, setClock],
  [5, reorganise],
  [
    4,
    ({ chain, scheduler }, _, all) =>
      chain.bring(all.filter(() => scheduler.chance(0.6)).map(({ key }) => key)),
  ],
  [3, ({ chain }, { payer }) => chain.topUp(payer, PRICE)],
  [4, payBack],
  [5, ({ ways }) => ways.trouble()],
  [5, (world) => world.isShared && world.ways.restart()],
  [20, rush],
  [8, ({ chain }) => chain.forget()],
  [1, (world) => world.isShared && world.chain.sendAs(settlingAccount)],
  ...sessionActs,
]

async function trouble(world: World, payments: readonly Signed[]): Promise<void> {
  const { scheduler } = world
  const endMs = scheduler.nowMs + scheduler.between(8_000, 40_000)
  // Each seed has a mixture of its own: faults hide one another.
  const { seed } = scheduler
  const all = [
    ...acts,
    ...(seed % CANCELLED_EVERY === 3 ? [[8, cancel] as const] : []),
    ...(seed % IMPATIENT_EVERY === 2 ? [[40, askImpatiently] as const] : []),
    ...(losesRefunds(world) ? [[60, payBack] as const] : []),
    ...(world.channels === undefined ? [] : channelActs),
  ]
  const mixture = all.map(
    ([weight, act], i) => [weight * (i === 0 ? 1 : scheduler.pick([0, 0.5, 1, 3])), act] as const,
  )
  const total = mixture.reduce((sum, [weight]) => sum + weight, 0)
  rush(world, payments[0]!, payments)
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

function reorganise({ chain, scheduler, channels }: World): void {
  const blocks = scheduler.between(1, 5)
  chain.reorganise(blocks)
  channels?.contract.reorganise(blocks)
}

function abort({ scheduler, requests }: World): void {
  if (requests.length === 0) return
  const { transport, process } = scheduler.pick(requests)
  if (!process.isDead) scheduler.as(process, () => transport.abort())
}

function setClock({ scheduler, processes }: World): void {
  scheduler.pick(processes).clockAheadMs += scheduler.pick([-600_000, -11_000, 11_000, 600_000])
}

function payBack(world: World, payment: Signed): void {
  const process = world.scheduler.pick(world.processes)
  void world.scheduler.as(process, () => refund(world, process, payment))
}

/** A payer takes back what pays for a call or a session, wherever it is by now. */
function cancel(world: World, _: Signed, payments: readonly Signed[]): void {
  const { scheduler, chain, authorisations, signedForSessions } = world
  const { key, payer, nonce, validBeforeMs } = scheduler.pick([...payments, ...signedForSessions])
  world.tell('cancel', nonce)
  chain.cancel(authorisations.get(key) ?? { key, payer, value: PRICE, validBeforeMs })
}

/** Many at once, of whom some are settled together. */
function rush(world: World, _: Signed, payments: readonly Signed[]): void {
  if (!world.isShared) return
  const process = world.scheduler.pick(world.processes)
  for (const payment of payments)
    if (world.scheduler.chance(0.7)) ask(world, payment, payment.link, '', process)
}

function queryOne(world: World, payment: Signed, link: number, path: string): void {
  const { scheduler } = world
  const asked = ask(world, payment, link, path, scheduler.pick(world.processes))
  if (asked === undefined || !scheduler.chance(0.25)) return
  const { process, transport } = asked
  scheduler.at(scheduler.between(0, 10_000), process, () => transport.abort())
}

/** A client that disconnects after a while and repeats its call with the same payment, wherever that comes to. */
function askImpatiently(world: World, payment: Signed): void {
  const { scheduler } = world
  const patienceMs = scheduler.between(20, 2_000)
  const attempt = (nth: number): void => {
    const asked = ask(world, payment, payment.link, '', scheduler.pick(world.processes))
    if (asked === undefined) return
    scheduler.at(patienceMs, asked.process, () => asked.transport.abort())
    void asked.transport.ended.then((got) => {
      if (got === undefined && nth < MAX_REPEATS && world.isFaulty)
        scheduler.at(scheduler.between(10, 500), null, () => attempt(nth + 1))
    })
  }
  attempt(0)
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

/** What buyers have asked for or mean to, each once; without those who never come back for their answers. */
function allCalls({ requests }: World, payments: readonly Signed[]) {
  const home = payments.map((payment) => ({ payment, link: payment.link, path: '' }))
  const wanted = [...home, ...requests].filter(({ payment }) => !payment.isGivenUp)
  const calls = wanted.map(({ payment, link, path }) => ({ payment, link, path }))
  return new Map(calls.map((call) => [`${call.payment.nonce} ${call.link}${call.path}`, call]))
}

/** Every buyer asks once more, until there is nothing to wait for; meanwhile recovery does what is due. */
async function retryPayment(world: World, payments: readonly Signed[]): Promise<void> {
  const { scheduler } = world
  let open = allCalls(world, payments)
  for (let turn = 0; ; turn++) {
    assert.ok(turn < 40, `after ${turn} turns something was due or open still`)
    // Leases are renewed before they are checked: no process is paused here.
    await scheduler.until(scheduler.nowMs + (turn < 6 ? 5_000 : 40_000))
    for (const process of world.processes) {
      const recovery = process.recovery!
      let isDone = false
      const round = async () => {
        await process.payments!.abandonOrphans()
        await recovery.round()
      }
      void scheduler.as(process, round).then(() => (isDone = true))
      await scheduler.until(scheduler.nowMs + 20_000, () => isDone)
    }
    if (losesRefunds(world)) {
      const process = scheduler.pick(world.processes)
      let isDone = false
      void scheduler.as(process, () => replaceRefunds(world, process, payments)).then(() => (isDone = true))
      await scheduler.until(scheduler.nowMs + 60_000, () => isDone)
    }
    for (const [name, { payment, link, path }] of open) {
      const asked = ask(world, payment, link, path, scheduler.pick(world.processes))!
      await scheduler.until(scheduler.nowMs + 60_000, () => asked.transport.isClosed)
      const status = asked.transport.got?.status ?? 0
      if ([200, 400, 402, 409].includes(status)) open.delete(name)
      // A payment that ends soon ends its stream.
      else if (isStreamedLink({ link }) && [0, 502].includes(status)) continue
      else assert.equal(status, 503, `an honest call was answered ${status} ${asked.transport.got?.body}`)
    }
    if (!(await comeBackToSessions(world)) || open.size > 0) continue
    // The process that had the last word writes it down.
    await scheduler.until(scheduler.nowMs + 1_000)
    if (await isAnythingDue(world)) continue
    // A call of before, which waited for its turn until now, may buy something for which its buyer has to come.
    const all = [...payments, ...world.signedForSessions, ...world.sent]
    const records = await Promise.all(all.map(({ key }) => world.store.ledger.find(key)))
    // What its buyer never comes back for waits for its day.
    const given = new Set(payments.filter(({ isGivenUp }) => isGivenUp).map(({ key }) => key))
    const isOver = (record: PaymentRecord | undefined) =>
      record === undefined ||
      closedStates.includes(record.state) ||
      (given.has(record.key) && record.state === 'settled' && record.hasResponse)
    if (records.every(isOver)) return
    open = allCalls(world, payments)
  }
}

/** So long passes that what no buyer has come for is given up. */
async function waitDays(world: World): Promise<void> {
  const { scheduler, processes } = world
  for (const process of processes) {
    const { clockAheadMs } = process
    for (let turn = 0; ; turn++) {
      // What left the chain meanwhile is looked for for another day.
      process.clockAheadMs = clockAheadMs + (turn + 2) * 86_400_000
      assert.ok(turn < 20, `after ${turn} turns a lost refund is looked for still`)
      let isDone = false
      void scheduler.as(process, () => process.recovery!.round()).then(() => (isDone = true))
      await scheduler.until(scheduler.nowMs + 20_000, () => isDone)
      if (!losesRefunds(world) || !(await isAnythingDue(world, false))) break
      await scheduler.until(scheduler.nowMs + LONGEST_PAUSE_MS)
    }
    process.clockAheadMs = clockAheadMs
  }
}

/** Whether recovery has a row to check, at any time or within the day for which it watches refunds that left the chain. */
async function isAnythingDue({ store, scheduler }: World, isWithinDay = true): Promise<boolean> {
  const nowMs = scheduler.nowMs
  // Later than any row may be due; nothing happens meanwhile.
  scheduler.nowMs += 600_001
  const due = await store.ledger.due({ states: paymentStates, limit: 100 })
  scheduler.nowMs = nowMs
  const isLookedFor = async ({ purchaseId, tries }: PaymentRecord) =>
    isWithinDay && tries === 0 && (await store.purchases.lostRefundsOf(purchaseId)).length > 0
  const lookedFor = await Promise.all(due.map(isLookedFor))
  return lookedFor.includes(false)
}
