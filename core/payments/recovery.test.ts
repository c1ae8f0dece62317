import t from 'tap'
import { attemptOf, response, settledIn, stage } from '../../test/helpers/core/payments/recovery.ts'
import type { PaymentState } from '../domain/payment.ts'
import { TollgateError } from '../errors/error.ts'
import { silentLog as log } from '../ports/log.ts'
import type { Lease } from '../ports/store/leases.ts'
import type { Ledger } from '../ports/store/ledger.ts'
import { createRecovery } from './recovery.ts'
import * as rules from './rules.ts'

/** Rows of a dead process, and their outcomes if the chain has what was sent. */
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
  t.match(await on.summary(), { purchases: 7, broken: { length: 0 }, unbalanced: { length: 0 } })
  for (let i = 0; i < 3; i++) t.equal(await heir.round(), 0)
  t.match(await on.summary(), { purchases: 7, broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test('whichever write fails, before or after it counts: the end is the same', async (t) => {
  // As many faults as a round has calls of the database, each of both kinds.
  for (let at = 0; at < 24; at++) {
    for (const isAfter of [false, true]) {
      const on = stage()
      const dead = await on.process('dead')
      const wanted = await leftBehind(on, dead.lease.current)
      on.settle(settledIn)
      on.step(11_000)
      let calls = 0
      const faulty = Object.fromEntries(
        Object.entries(on.ledger).map(([name, call]) => [
          name,
          async (...args: never[]) => {
            const isHit = calls++ === at
            if (isHit && !isAfter) throw new TollgateError('store_unavailable')
            const result = await (call as (...args: never[]) => Promise<unknown>)(...args)
            if (isHit) throw new TollgateError('store_unavailable')
            return result
          },
        ]),
      ) as Partial<Ledger>
      const { recovery } = await on.process('heir')
      const heir = recovery(faulty)
      for (let i = 0; i < 3; i++) {
        await heir.round().catch((error: unknown) => t.match(error, { code: 'store_unavailable' }))
        on.step(60_000)
      }
      const ends = await Promise.all([...wanted.keys()].map(on.stateOf))
      t.same(ends, [...wanted.values()], `fault at call ${at}, ${isAfter ? 'after' : 'before'}`)
      t.match(await on.summary(), { purchases: 7, broken: { length: 0 }, unbalanced: { length: 0 } })
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
  t.match(await on.summary(), { purchases: 7, broken: { length: 0 }, unbalanced: { length: 0 } })
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
    // The process was suspended, or its database was down, and it has a new lease now.
    on.step(3_600_000)
    own.lease.current = (await on.leases.take('process:own', 10_000))!
    const recovery = own.recovery()
    for (let i = 0; i < 5; i++) {
      t.equal(await recovery.round(), 0)
      on.step(2_000)
    }
    t.same(await Promise.all(keys.map(on.stateOf)), ['claimed', 'settling', 'settled'])
    t.same(on.requests, [])
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
  t.notOk(await on.ledger.apply(rules.begin(claimed, attemptOf(9), response)), 'nothing will be broadcast')
  t.notOk(await on.ledger.apply(rules.free(settling, 'not sent')), 'and nobody is told that nothing was')
  t.equal(await on.stateOf(settling.key), 'pending')
})

t.test('what is taken over while it is being looked at is not forgotten', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const key = await on.payment({ id: 99, name: 'process:dead' }, 'settled', { isKept: false })
  // The row is read, and then adopted, before the decision about it is written.
  const late = recovery({
    adopt: async () => 0,
    async due(filter) {
      const records = await on.ledger.due(filter)
      if (records.length > 0) await on.ledger.adopt(lease.current, ['settled'], 10)
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
    t.equal(await on.ledger.adopt(first.lease.current, ['settled'], 10), 1)
    await second.recovery().round()
    t.match(await on.find(key), { state: 'refund_due', errorReason: 'never_delivered' })
    on.step(9_000)
    for (const { lease } of [first, second]) await on.leases.renew(lease.current, 60_000)
    on.step(21_000)
    await second.recovery().round()
    t.equal(await on.stateOf(running), 'settled', 'its process lives, and knows')
  },
)

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
  t.match(await on.summary(), { purchases: 2, broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test('3,000 that a dead process left are six questions, and nobody’s are asked about twice', async (t) => {
  const on = stage()
  const dead = await on.process('dead')
  for (let n = 0; n < 3_000; n++) await on.payment(dead.lease.current, 'settling')
  on.settle(settledIn)
  on.step(11_000)
  const { recovery } = await on.process('heir')
  t.equal(await recovery().round(), 3_000)
  t.same(on.requests, [500, 500, 500, 500, 500, 500])
  t.match(await on.summary(), { purchases: 3_000, broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test('answers that nobody came for in a day are owed back and forgotten', async (t) => {
  const on = stage()
  const { lease, recovery } = await on.process('own')
  const key = await on.payment(lease.current, 'settled', { isKept: true })
  on.step(86_000_000)
  await recovery().round()
  t.match(await on.find(key), { state: 'settled', hasResponse: true })
  on.step(401_000)
  await recovery().round()
  t.match(await on.find(key), { state: 'refund_due', hasResponse: true })
  on.step(86_401_000)
  await recovery().round()
  t.match(await on.find(key), { state: 'refund_due', hasResponse: false })
})

t.test(
  'answers that were delivered go when no repeat gets them; what is owed stays for its day',
  async (t) => {
    const on = stage()
    const { lease, recovery } = await on.process('own')
    const owed = await on.payment(lease.current, 'settled', { isKept: true })
    const sold = await on.payment(lease.current, 'settled', { isKept: true })
    const late = await on.payment(lease.current, 'settled', { isKept: true })
    const deliver = async (key: string) => {
      const { row, purchaseId, lease } = (await on.find(key))!
      t.ok(await on.ledger.apply(rules.deliver({ row, purchaseId, lease })))
    }
    await deliver(sold)
    let keepMs = 3_600_000
    const runs = recovery({}, { keepDeliveredMs: () => keepMs })
    on.step(1_500_001)
    await runs.round()
    t.match(await on.find(sold), { state: 'delivered', hasResponse: true }, 'a longer window is kept to')
    keepMs = 900_000
    await runs.round()
    t.match(await on.find(sold), { state: 'delivered', hasResponse: false })
    t.match(await on.find(late), { state: 'settled', hasResponse: true })
    await deliver(late)
    await runs.round()
    t.match(
      await on.find(late),
      { state: 'delivered', hasResponse: false },
      'delivered when a pass had gone by',
    )
    t.match(await on.find(owed), { state: 'settled', hasResponse: true })
  },
)

t.test(
  'a clock that jumps ten minutes ahead, and back, takes nobody the answer that a repeat still gets',
  async (t) => {
    const on = stage()
    const { lease, recovery } = await on.process('own')
    const sold = await on.payment(lease.current, 'delivered', { isKept: true })
    const runs = recovery({}, { keepDeliveredMs: () => 900_000 })
    on.step(301_000)
    on.step(600_000)
    await runs.round()
    on.step(-600_000)
    await runs.round()
    t.match(
      await on.find(sold),
      { state: 'delivered', hasResponse: true },
      'five of fifteen minutes are over',
    )
  },
)

t.test('one process runs the loops; another takes over when it is gone, and its rows with it', async (t) => {
  const on = stage()
  const first = await on.process('first')
  const second = await on.process('second')
  on.settle(settledIn)
  const until = async (is: () => Promise<boolean>) => {
    while (!(await is())) await new Promise((resolve) => setTimeout(resolve, 1))
  }
  const isHeld = async () => (await on.leases.take('recovery', 1)) === undefined
  // The first process is killed in the middle: it sends nothing more, and releases nothing.
  const never = { ...on.leases, release: async () => {} }
  const dying = createRecovery(
    {
      ledger: on.ledger,
      leases: never,
      chains: on.chains,
      clock: { now: () => 0 },
      log,
      lease: first.lease,
      payments: { isUnderWay: () => false, withhold: () => () => {} },
      purchases: on.store.purchases,
      sessions: on.store.sessions,
      refundProofs: { prove: async () => ({ status: 'not_configured' }) },
      notes: { tokenHash: () => 'hash' },
    },
    { intervalMs: 1 },
  ).start()
  const key = await on.payment(first.lease.current, 'pending')
  on.step(2_000)
  await until(async () => (await on.stateOf(key)) === 'settled')
  const left = await on.payment(first.lease.current, 'settling')
  await dying.stop()

  const heir = second.recovery().start()
  t.ok(await isHeld(), 'the lease outlives its process')
  t.equal(await on.stateOf(left), 'settling')
  await on.leases.renew(second.lease.current, 100_000)
  on.step(11_000)
  await until(async () => (await on.stateOf(left)) === 'settled')
  await heir.stop()
  t.notOk(await isHeld(), 'who ends in order gives it back')
})
