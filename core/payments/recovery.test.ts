import t from 'tap'
import { createMemory, type Memory } from '../../adapters/memory/store/memory.ts'
import { openMemory } from '../../adapters/memory/store/openMemory.ts'
import { builtInAssets } from '../domain/asset.ts'
import type { NetworkId } from '../domain/network.ts'
import type { PaymentRecord, PaymentState } from '../domain/payment.ts'
import { TollgateError } from '../errors/error.ts'
import type { Books } from '../ports/books.ts'
import type { Lease } from '../ports/leases.ts'
import { silentLog as log } from '../ports/log.ts'
import type { OnChain, SettleOutcome, Settler } from '../ports/settler.ts'
import { createRecovery } from './recovery.ts'
import * as rules from './rules.ts'

const network: NetworkId = 'eip155:84532'
const asset = builtInAssets.find((one) => one.network === network)!
const answer = { status: 200, headers: [], body: Buffer.from('{}') }
const attemptOf = (n: number) => ({
  ...{ settler: 'fake', bytes: '0x02', transaction: `0x${n}`, sequence: String(n) },
})
const settledIn = ({ attempt, nonce, amountAtomic }: PaymentRecord): SettleOutcome => ({
  ...{ status: 'settled', transaction: attempt!.transaction, event: nonce, block: 1 },
  chargedAtomic: amountAtomic,
})
const pending: SettleOutcome = { status: 'pending', transaction: '0x', reason: 'settlement_pending' }

/** A store in memory on a clock of the test's own, a chain of which it says what is there, and processes that die. */
function stage(memory?: Memory) {
  let nowMs = 1_000_000
  const clock = { now: () => nowMs }
  const shared = memory ?? createMemory(clock)
  const store = openMemory({ memory: shared, clock })
  const { books, leases } = store
  const underWay = new Set<number>()
  const asked: number[] = []
  let outcomeOf: (record: PaymentRecord) => SettleOutcome = () => pending
  let onChain: (record: PaymentRecord) => OnChain = () => 'yes'
  const settler = {
    ...{ id: 'fake', network, scheme: 'exact' },
    async recover(records: readonly PaymentRecord[]) {
      asked.push(records.length)
      return records.map((record) => outcomeOf(record))
    },
    async stillOnChain(records: readonly PaymentRecord[]) {
      asked.push(records.length)
      return records.map((record) => onChain(record))
    },
  } as unknown as Settler
  const chains = {
    assets: [asset],
    settlers: [settler],
    settler: (of: string) => (of === network ? settler : undefined),
  }
  let rows = 0
  const keyOf = (n: number) => n.toString(16).padStart(64, '0')

  const process = async (name: string) => {
    const lease = { current: (await leases.take(`process:${name}`, 10_000))! }
    return {
      lease,
      recovery: (over: Partial<Books> = {}) =>
        createRecovery(
          {
            ...{ books: { ...books, ...over }, leases, chains, clock, log, lease },
            payments: { isUnderWay: (row: number) => underWay.has(row) },
            purchases: store.purchases,
            notes: { tokenHash: (id: string) => `hash of ${id}` },
          },
          { intervalMs: 1 },
        ),
    }
  }
  /** A payment as its call has brought it so far. */
  const payment = async (
    lease: Lease,
    state: PaymentState,
    changes: { isKept?: boolean; asset?: string; network?: NetworkId } = {},
  ) => {
    const n = ++rows
    const purchaseId = `0190b2a4-0000-7000-8000-${String(n).padStart(12, '0')}`
    const { isKept = true, ...facts } = changes
    const claimed = await books.claim({
      ...{ key: keyOf(n), network, asset: asset.address, payer: '0x2', nonce: `${n}`, payTo: '0x3' },
      ...{ amountAtomic: 10_000n, validBeforeMs: 2_000_000, scheme: 'exact', lease: lease.id },
      ...{ linkId: 'link', storeId: 'store', requestHash: 'h', purchaseId, payload: '{}', ...facts },
    })
    if (!claimed.won) throw new Error('the key is taken')
    const { row } = claimed
    const held = { row, purchaseId, lease: lease.id }
    const apply = async (change: Parameters<Books['apply']>[0]) => {
      if (!(await books.apply(change))) throw new Error(`could not make it ${change.to}`)
    }
    if (state === 'claimed') return keyOf(n)
    await apply(rules.begin(held, attemptOf(n), isKept ? answer : null))
    if (state === 'settling') return keyOf(n)
    if (state === 'pending') await apply(rules.pend(held, 'settlement_pending'))
    if (state === 'failed_final') await apply(rules.giveUp({ ...held, state: 'settling' }, 'expired'))
    if (state === 'settled' || state === 'delivered') {
      const sold = (await books.find(keyOf(n)))!
      const landed = { transaction: `0x${n}`, event: '0', block: 1, chargedAtomic: 10_000n }
      const sale = { payment: sold, landed, asset, reviewTokenHash: 'hash', atMs: nowMs }
      await apply(rules.sell(held, sale, attemptOf(n), false))
    }
    if (state === 'delivered') await apply(rules.deliver(held))
    return keyOf(n)
  }
  return {
    ...{ memory: shared, store, books, leases, chains, process, payment, underWay, asked },
    settle: (how: typeof outcomeOf) => void (outcomeOf = how),
    see: (how: typeof onChain) => void (onChain = how),
    step: (ms: number) => void (nowMs += ms),
    find: async (key: string) => (await books.find(key))!,
    stateOf: async (key: string) => (await books.find(key))?.state,
    ledger: async () => {
      const found = await store.purchases.ledgerCheck()
      return { purchases: found.purchases, broken: found.broken, unbalanced: found.unbalanced }
    },
  }
}

/** Rows of a process that is dead, and what becomes of them where the chain has what was sent. */
async function leftBehind(
  { payment }: ReturnType<typeof stage>,
  lease: Lease,
): Promise<Map<string, PaymentState>> {
  const kept = { isKept: true }
  const asked = { isKept: false }
  return new Map<string, PaymentState>([
    [await payment(lease, 'claimed'), 'rejected'],
    [await payment(lease, 'settling', kept), 'settled'],
    [await payment(lease, 'settling', asked), 'refund_due'],
    [await payment(lease, 'pending', kept), 'settled'],
    [await payment(lease, 'pending', asked), 'refund_due'],
    [await payment(lease, 'settled', kept), 'settled'],
    [await payment(lease, 'settled', asked), 'refund_due'],
    [await payment(lease, 'delivered'), 'delivered'],
  ])
}

t.test('what a dead process left comes to its end, once, however often it is looked at', async (t) => {
  const on = stage()
  const dead = await on.process('dead')
  const wanted = await leftBehind(on, dead.lease.current)
  on.settle(settledIn)
  on.step(9_000)
  const { recovery } = await on.process('heir')
  const heir = recovery()
  t.equal(
    await heir.round(),
    2,
    'only what is due by itself, while its lease lasts: what was noted as pending',
  )
  on.step(2_000)
  await heir.round()
  for (const [key, state] of wanted) t.equal(await on.stateOf(key), state)
  t.match(await on.ledger(), { purchases: 7, broken: [], unbalanced: [] })
  for (let i = 0; i < 3; i++) t.equal(await heir.round(), 0)
  t.match(await on.ledger(), { purchases: 7, broken: [], unbalanced: [] })
})

t.test('whichever write fails, before or after it counts: the end is the same', async (t) => {
  // As many faults as a round has calls of the store, each of both kinds.
  for (let at = 0; at < 24; at++) {
    for (const isAfter of [false, true]) {
      const on = stage()
      const dead = await on.process('dead')
      const wanted = await leftBehind(on, dead.lease.current)
      on.settle(settledIn)
      on.step(11_000)
      let calls = 0
      const faulty = Object.fromEntries(
        Object.entries(on.books).map(([name, call]) => [
          name,
          async (...args: never[]) => {
            const isHit = calls++ === at
            if (isHit && !isAfter) throw new TollgateError('store_unavailable')
            const result = await (call as (...args: never[]) => Promise<unknown>)(...args)
            if (isHit) throw new TollgateError('store_unavailable')
            return result
          },
        ]),
      ) as Partial<Books>
      const { recovery } = await on.process('heir')
      const heir = recovery(faulty)
      for (let i = 0; i < 3; i++) {
        await heir.round().catch((error: unknown) => t.match(error, { code: 'store_unavailable' }))
        on.step(60_000)
      }
      const ends = await Promise.all([...wanted.keys()].map(on.stateOf))
      t.same(ends, [...wanted.values()], `fault at call ${at}, ${isAfter ? 'after' : 'before'}`)
      t.match(await on.ledger(), { purchases: 7, broken: [], unbalanced: [] })
    }
  }
})

t.test('two recoveries at once on one store book everything once', async (t) => {
  const on = stage()
  const dead = await on.process('dead')
  const wanted = await leftBehind(on, dead.lease.current)
  on.settle(settledIn)
  on.step(11_000)
  const both = [await on.process('one'), await on.process('other')].map(({ recovery }) => recovery())
  for (let i = 0; i < 3; i++) {
    await Promise.all(both.map((one) => one.round()))
    on.step(60_000)
  }
  for (const [key, state] of wanted) t.equal(await on.stateOf(key), state)
  t.match(await on.ledger(), { purchases: 7, broken: [], unbalanced: [] })
})

t.test(
  'rows whose calls still run are left alone, whatever becomes of the lease; afterwards they are not',
  async (t) => {
    const on = stage()
    const own = await on.process('own')
    const keys = [
      await on.payment(own.lease.current, 'claimed'),
      await on.payment(own.lease.current, 'settling'),
      await on.payment(own.lease.current, 'settled', { isKept: false }),
    ]
    for (const key of keys) on.underWay.add((await on.find(key)).row)
    on.settle(settledIn)
    // It stood still, or its store was away, and it has a new lease now.
    on.step(3_600_000)
    own.lease.current = (await on.leases.take('process:own', 10_000))!
    const recovery = own.recovery()
    for (let i = 0; i < 5; i++) {
      t.equal(await recovery.round(), 0)
      on.step(2_000)
    }
    t.same(await Promise.all(keys.map(on.stateOf)), ['claimed', 'settling', 'settled'])
    t.same(on.asked, [])
    on.underWay.clear()
    await recovery.round()
    t.same(await Promise.all(keys.map(on.stateOf)), ['rejected', 'settled', 'refund_due'])
  },
)

t.test('a call that was taken for dead can not write any more once its row is taken up', async (t) => {
  const on = stage()
  const frozen = await on.process('frozen')
  const claimed = await on.find(await on.payment(frozen.lease.current, 'claimed'))
  const settling = await on.find(await on.payment(frozen.lease.current, 'settling'))
  on.step(11_000)
  const { recovery } = await on.process('heir')
  await recovery().round()
  t.notOk(await on.books.apply(rules.begin(claimed, attemptOf(9), answer)), 'nothing will be broadcast')
  t.notOk(await on.books.apply(rules.free(settling, 'not sent')), 'and nobody is told that nothing was')
  t.equal(await on.stateOf(settling.key), 'pending')
})

t.test('what stays open is looked at every 8 s at most while it can land, then once a minute', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const key = await on.payment(lease.current, 'pending')
  const own = recovery()
  const atMs: number[] = []
  // Its time is over after 1,000 s.
  for (let ms = 0; ms <= 1_500_000; ms += 1_000) {
    const before = on.asked.length
    await own.round()
    if (on.asked.length > before) atMs.push(ms)
    on.step(1_000)
  }
  t.same(atMs.slice(0, 7), [2_000, 4_000, 8_000, 16_000, 24_000, 32_000, 40_000])
  const gaps = atMs.slice(1).map((ms, i) => ms - atMs[i]!)
  const isLate = atMs.map((ms) => ms >= 1_000_000 + 120_000)
  t.same(new Set(gaps.filter((_, i) => !isLate[i] && i > 2)), new Set([8_000]))
  t.same(new Set(gaps.filter((_, i) => isLate[i])), new Set([60_000]))
  t.match(await on.books.parked(5, 10), { total: 1, rows: [{ key }] }, 'and the operator can see it')
  on.settle(settledIn)
  on.step(60_000)
  await own.round()
  t.equal(await on.stateOf(key), 'settled')
  t.match(await on.books.parked(5, 10), { total: 0 })
})

t.test(
  'mined and reverted: the reason is kept for the buyer, and the row is looked at when the settler says',
  async (t) => {
    const on = stage()
    const { lease, recovery } = await on.process('own')
    const key = await on.payment(lease.current, 'pending')
    const own = recovery()
    on.settle(() => ({ ...pending, reason: 'reverted', message: 'mined and reverted', lookAgainMs: 60_000 }))
    on.step(2_000)
    await own.round()
    t.match(await on.find(key), { state: 'pending', errorReason: 'reverted' })
    // A node that can't say anything takes nothing back.
    on.step(60_000)
    on.settle(() => pending)
    await own.round()
    t.match(await on.find(key), { state: 'pending', errorReason: 'reverted' })
    on.settle(() => ({ status: 'failed_final', reason: 'reverted', message: '', transaction: '' }))
    on.step(60_000)
    await own.round()
    t.equal(await on.stateOf(key), 'failed_final')
  },
)

t.test('where many are open, they are asked about less often than a settler would like to', async (t) => {
  const questions = async (rows: number) => {
    const on = stage()
    const dead = await on.process('dead')
    for (let i = 0; i < rows; i++) await on.payment(dead.lease.current, 'pending')
    const recovery = (await on.process('living')).recovery()
    on.settle(() => ({ ...pending, lookAgainMs: 1_000 }))
    on.step(10_000)
    for (let second = 0; second < 60; second++) {
      await recovery.round()
      on.step(1_000)
    }
    return on.asked.reduce((sum, asked) => sum + asked, 0) / rows
  }
  t.equal(await questions(10), 60)
  const eachOfMany = await questions(400)
  t.ok(eachOfMany > 2 && eachOfMany <= 5, `each of 400 was asked about ${eachOfMany} times in a minute`)
})

t.test('a row that can not be booked is put off with its reason, and stops none of the others', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const own = recovery()
  const foreign = await on.payment(lease.current, 'pending', {
    asset: '0x000000000000000000000000000000000000dEaD',
  })
  const elsewhere = await on.payment(lease.current, 'pending', { network: 'eip155:1' })
  const good = await on.payment(lease.current, 'pending')
  const same = await on.payment(lease.current, 'pending')
  // Two rows of one event: one of them is a mistake, and nobody knows which.
  on.settle((record) => ({ ...settledIn(record), transaction: '0xff', event: '7' }) as SettleOutcome)
  for (let i = 0; i < 8; i++) {
    on.step(60_000)
    await own.round()
  }
  t.same(await Promise.all([foreign, elsewhere, good, same].map(on.stateOf)), [
    'pending',
    'pending',
    'settled',
    'pending',
  ])
  t.match((await on.find(foreign)).dueReason, /not configured any more/)
  t.match((await on.find(elsewhere)).dueReason, /eip155:1 \(exact\) is not configured/)
  t.ok((await on.find(same)).dueReason)
  t.match(await on.books.parked(5, 10), { total: 3 })
  t.match(await on.ledger(), { purchases: 1, broken: [], unbalanced: [] })
})

t.test('a settler that breaks puts its rows off, and the others’ are settled', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const key = await on.payment(lease.current, 'pending')
  on.settle(() => {
    throw new Error('broken')
  })
  on.step(2_000)
  await recovery().round()
  t.match(await on.find(key), { state: 'pending', tries: 1, dueReason: 'broken' })
})

t.test(
  'what settled is looked up at 30 s and at five minutes, and never again: rounds don’t grow',
  async (t) => {
    const on = stage()
    const { lease, recovery } = await on.process('own')
    const own = recovery()
    for (let n = 0; n < 700; n++) await on.payment(lease.current, 'delivered')
    for (let ms = 0; ms < 3_600_000; ms += 10_000) {
      await own.round()
      on.step(10_000)
    }
    t.same(on.asked, [500, 200, 500, 200])
  },
)

t.test(
  'a transfer that left the chain is booked so when a second look agrees, and again when it comes back',
  async (t) => {
    const on = stage()
    const { lease, recovery } = await on.process('own')
    const own = recovery()
    const key = await on.payment(lease.current, 'delivered')
    on.see(() => 'no')
    on.step(30_000)
    await own.round()
    t.equal(await on.stateOf(key), 'delivered', 'one look is none')
    on.see(() => 'yes')
    on.step(5_000)
    await own.round()
    on.see(() => 'no')
    on.step(270_000)
    await own.round()
    t.equal(await on.stateOf(key), 'delivered', 'nor is one after another that saw it')
    on.see(() => 'unknown')
    on.step(5_000)
    await own.round()
    on.see(() => 'no')
    on.step(5_000)
    await own.round()
    t.match(await on.find(key), { state: 'reorged', errorReason: 'reorged_after_delivery' })
    t.match(await on.ledger(), { purchases: 0, broken: [], unbalanced: [] })
    on.settle(settledIn)
    on.step(2_000)
    await own.round()
    t.equal(await on.stateOf(key), 'delivered', 'its buyer has had the answer')
    t.match(await on.ledger(), { purchases: 1, broken: [], unbalanced: [] })
  },
)

t.test('what is taken over while it is being looked at is not forgotten', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const key = await on.payment({ id: 99, name: 'process:dead' }, 'settled', { isKept: false })
  // The row is read, and then adopted, before what was decided about it is written.
  const late = recovery({
    adopt: async () => 0,
    async due(filter) {
      const records = await on.books.due(filter)
      if (records.length > 0) await on.books.adopt(lease.current, ['settled'], 10)
      return records
    },
  })
  on.step(30_000)
  await late.round()
  t.match(await on.find(key), { state: 'settled', lease: lease.current.id })
  on.step(30_000)
  await recovery().round()
  t.match(await on.find(key), { state: 'refund_due', errorReason: 'never_delivered' })
})

t.test(
  'what one process has taken over comes to its end also when another one recovers by then',
  async (t) => {
    const on = stage()
    const first = await on.process('first')
    const second = await on.process('second')
    const key = await on.payment({ id: 99, name: 'process:dead' }, 'settled', { isKept: false })
    const running = await on.payment(first.lease.current, 'settled', { isKept: false })
    t.equal(await on.books.adopt(first.lease.current, ['settled'], 10), 1)
    await second.recovery().round()
    t.match(await on.find(key), { state: 'refund_due', errorReason: 'never_delivered' })
    on.step(9_000)
    for (const { lease } of [first, second]) await on.leases.renew(lease.current, 60_000)
    on.step(21_000)
    await second.recovery().round()
    t.equal(await on.stateOf(running), 'settled', 'its process lives, and knows')
  },
)

t.test('what is owed and left the chain is owed no more', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const own = recovery()
  const landedLate = await on.payment(lease.current, 'pending', { isKept: false })
  on.settle(settledIn)
  on.step(2_000)
  await own.round()
  const failed = await on.payment(lease.current, 'settled', { isKept: false })
  await on.books.apply(rules.owe(await on.find(failed), 'upstream_error'))
  const states = async () => [await on.stateOf(landedLate), await on.stateOf(failed)]
  t.same(await states(), ['refund_due', 'refund_due'])
  on.see(() => 'no')
  on.settle(() => pending)
  on.step(30_000)
  await own.round()
  on.step(5_000)
  await own.round()
  t.same(await states(), ['reorged', 'reorged'])
  t.match(await on.ledger(), { purchases: 0, broken: [], unbalanced: [] })
  on.settle(settledIn)
  on.step(60_000)
  await own.round()
  t.same(await states(), ['refund_due', 'refund_due'], 'it came back')
})

t.test('looks that say nothing are made again, until one does', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const own = recovery()
  const key = await on.payment(lease.current, 'delivered')
  on.see(() => 'unknown')
  let looks = 0
  for (let ms = 0; ms < 3_600_000; ms += 2_000) {
    const before = on.asked.length
    await own.round()
    looks += on.asked.length - before
    on.step(2_000)
  }
  t.ok(looks > 5 && looks < 20, String(looks))
  on.see(() => 'no')
  for (let i = 0; i < 2; i++) {
    on.step(600_000)
    await own.round()
  }
  t.equal(await on.stateOf(key), 'reorged')
})

t.test('what had failed for good and landed all the same is booked: for its buyer, or owed', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const own = recovery()
  const kept = await on.payment(lease.current, 'failed_final', { isKept: true })
  const asked = await on.payment(lease.current, 'failed_final', { isKept: false })
  on.settle(settledIn)
  on.step(30_000)
  await own.round()
  t.equal(await on.stateOf(kept), 'settled')
  t.match(await on.find(asked), { state: 'refund_due', errorReason: 'landed_late' })
  t.match(await on.ledger(), { purchases: 2, broken: [], unbalanced: [] })
})

t.test('3,000 that a dead process left are six questions, and nobody’s are asked about twice', async (t) => {
  const on = stage()
  const dead = await on.process('dead')
  for (let n = 0; n < 3_000; n++) await on.payment(dead.lease.current, 'settling')
  on.settle(settledIn)
  on.step(11_000)
  const { recovery } = await on.process('heir')
  t.equal(await recovery().round(), 3_000)
  t.same(on.asked, [500, 500, 500, 500, 500, 500])
  t.match(await on.ledger(), { purchases: 3_000, broken: [], unbalanced: [] })
})

t.test('answers that nobody came for in a day are owed back and forgotten', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const key = await on.payment(lease.current, 'settled', { isKept: true })
  on.step(86_000_000)
  await recovery().round()
  t.match(await on.find(key), { state: 'settled', hasAnswer: true })
  on.step(401_000)
  await recovery().round()
  t.match(await on.find(key), { state: 'refund_due', hasAnswer: true })
  on.step(86_401_000)
  await recovery().round()
  t.match(await on.find(key), { state: 'refund_due', hasAnswer: false })
})

t.test('one process runs the loops; another takes over when it is gone, and its rows with it', async (t) => {
  const on = stage()
  const first = await on.process('first')
  const second = await on.process('second')
  on.settle(settledIn)
  const ends = [new AbortController(), new AbortController()]
  const until = async (is: () => Promise<boolean>) => {
    while (!(await is())) await new Promise((resolve) => setTimeout(resolve, 1))
  }
  const isHeld = async () => (await on.leases.take('recovery', 1)) === undefined
  // The first process is killed in the middle: it says nothing more, and gives nothing back.
  const never = { ...on.leases, release: async () => {} }
  const dying = createRecovery(
    {
      ...{
        books: on.books,
        leases: never,
        chains: on.chains,
        clock: { now: () => 0 },
        log,
        lease: first.lease,
      },
      ...{ payments: { isUnderWay: () => false }, purchases: on.store.purchases },
      notes: { tokenHash: () => 'hash' },
    },
    { intervalMs: 1 },
  ).run(ends[0]!.signal)
  const key = await on.payment(first.lease.current, 'pending')
  on.step(2_000)
  await until(async () => (await on.stateOf(key)) === 'settled')
  const left = await on.payment(first.lease.current, 'settling')
  ends[0]!.abort()
  await dying

  const heir = second.recovery().run(ends[1]!.signal)
  t.ok(await isHeld(), 'the lease outlives its process')
  t.equal(await on.stateOf(left), 'settling')
  await on.leases.renew(second.lease.current, 100_000)
  on.step(11_000)
  await until(async () => (await on.stateOf(left)) === 'settled')
  ends[1]!.abort()
  await heir
  t.notOk(await isHeld(), 'who ends in order gives it back')
})
