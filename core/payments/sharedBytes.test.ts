import t from 'tap'
import { neverSent, type PaymentState, type SettlementAttempt } from '../domain/payment.ts'
import type { SettleOutcome } from '../ports/chains/settler.ts'
import { answer, attemptOf, settledIn, stage, pending as unknown } from './recovery.fixture.ts'
import * as rules from './rules.ts'

/** The chain knows nothing of it, and it can land still. */
const pending: SettleOutcome = { ...unknown, isUnused: true } as SettleOutcome

/** Two payments in one transaction: one of a dead process that is pending, one of a process that lives. */
async function twoInOne(on: ReturnType<typeof stage>, state: PaymentState) {
  const { lease: dead } = await on.process('dead')
  const first = await on.payment(dead.current, 'pending')
  on.step(11_000)
  const { lease: living } = await on.process('living')
  const second = await on.payment(living.current, state)
  for (const settler of on.chains.settlers) settler.paymentsOf = () => [first, second]
  const handedOver: (SettlementAttempt | null)[] = []
  on.settle(({ attempt }) => {
    handedOver.push(attempt)
    return pending
  })
  const { recovery, lease: heir } = await on.process('heir')
  return { first, second, handedOver, living, heir, recovery }
}

t.test(
  'bytes that settle several payments are sent again only where each of these is in the books',
  async (t) => {
    for (const [third, expected] of [
      ['settling', '0x02'],
      ['settled', '0x02'],
      ['failed_final', '0x02'],
      ['claimed', ''],
      [undefined, ''],
    ] as const) {
      const on = stage()
      const { lease } = await on.process('dead')
      const keys = [await on.payment(lease.current, 'settling'), await on.payment(lease.current, 'pending')]
      keys.push(third === undefined ? 'ff'.repeat(32) : await on.payment(lease.current, third))
      for (const settler of on.chains.settlers) settler.paymentsOf = () => keys
      const handedOver: (string | undefined)[] = []
      on.settle(({ key, attempt }) => {
        if (key !== keys[2]) handedOver.push(attempt?.bytes)
        return pending
      })
      on.step(11_000)
      const { recovery } = await on.process('heir')
      await recovery().round()
      t.same(handedOver, [expected, expected], `the third is ${third}`)
      t.match(
        await on.find(keys[0]!),
        { state: 'pending', attempt: { bytes: '0x02' } },
        'and all of it is kept',
      )
    }
  },
)

t.test(
  'what was stored for some of those that it settles is never sent, and free once its account number is used',
  async (t) => {
    const on = stage()
    const { lease } = await on.process('dead')
    const keys = [await on.payment(lease.current, 'settling'), await on.payment(lease.current, 'settling')]
    for (const key of keys) await on.books.apply(rules.beginAnew(await on.find(key), attemptOf(7)))
    const third = await on.payment(lease.current, 'claimed')
    for (const settler of on.chains.settlers) settler.paymentsOf = () => [...keys, third]
    const handedOver: (string | undefined)[] = []
    let isUsed = false
    on.settle(({ attempt }) => {
      handedOver.push(attempt?.bytes)
      return isUsed ? { status: 'rejected', reason: 'x', message: 'never sent' } : pending
    })
    on.step(11_000)
    const { recovery, lease: heir } = await on.process('heir')
    await recovery().round()
    const marked = { state: 'pending', errorReason: neverSent, attempt: attemptOf(7), hasAnswer: true }
    for (const key of keys) t.match(await on.find(key), marked)
    t.match(await on.books.openAttempts('fake'), [{ isUnsent: true }, { isUnsent: true }])

    // Its own payment goes another way meanwhile: by its state alone the bytes could be sent now.
    const again = await on.books.claim({ ...(await on.find(third)), lease: heir.current.id })
    t.ok(again.won)
    t.ok(await on.books.apply(rules.begin(await on.find(third), attemptOf(8), answer)))
    on.underWay.add((await on.find(third)).row)
    on.step(3_000)
    await recovery().round()
    t.same([...new Set(handedOver)], [''], 'whoever has said so stands by it')

    isUsed = true
    on.step(10_000)
    await recovery().round()
    for (const key of keys)
      t.match(await on.find(key), {
        state: 'rejected',
        attempt: null,
        hasAnswer: false,
        errorReason: neverSent,
      })
  },
)

t.test('nothing is said of bytes while a call may still store them', async (t) => {
  const on = stage()
  const { first, second, handedOver, recovery } = await twoInOne(on, 'claimed')
  await recovery().round()
  t.same(handedOver, [null])
  t.match(await on.find(first), { state: 'pending', errorReason: 'settlement_pending' })
  await on.books.apply(rules.free(await on.find(second)))
  on.step(9_000)
  await recovery().round()
  t.match(await on.find(first), { state: 'pending', errorReason: neverSent })
})

t.test(
  'bytes are not sent that some payment in them was not stored with, whatever it was stored with before',
  async (t) => {
    const on = stage()
    const { lease } = await on.process('dead')
    // The store of one of three said no; the other two went without it, and only one of them is stored with the bytes for two.
    const [anew, before] = [
      await on.payment(lease.current, 'settling'),
      await on.payment(lease.current, 'settling'),
    ]
    const third = await on.payment(lease.current, 'claimed')
    const [ofThree, ofTwo] = [attemptOf(7), { ...attemptOf(8), bytes: '0x03' }]
    for (const key of [anew, before]) await on.books.apply(rules.beginAnew(await on.find(key), ofThree))
    await on.books.apply(rules.beginAnew(await on.find(anew), ofTwo))
    for (const settler of on.chains.settlers)
      settler.paymentsOf = ({ bytes }) => (bytes === ofTwo.bytes ? [anew, before] : [anew, before, third])
    const sent = new Set<string>()
    let used = 7
    on.settle(({ attempt }) => {
      if (attempt !== null && attempt.bytes !== '') sent.add(attempt.bytes)
      return attempt?.bytes === '' && Number(attempt.sequence) < used
        ? { status: 'rejected', reason: 'x', message: 'never sent' }
        : pending
    })
    on.step(11_000)
    const { recovery } = await on.process('heir')
    await recovery().round()
    used = 8
    on.step(10_000)
    await recovery().round()
    t.same([...sent], [], 'they would charge a payment that is free')
    t.equal(await on.stateOf(before), 'rejected')
    used = 9
    on.step(10_000)
    await recovery().round()
    t.equal(await on.stateOf(anew), 'rejected')
  },
)

t.test(
  'bytes are not sent whose payments are charged by others, but for those that were mined',
  async (t) => {
    for (const wereMined of [false, true]) {
      const on = stage()
      const { lease } = await on.process('dead')
      const keys = [await on.payment(lease.current, 'settling'), await on.payment(lease.current, 'settling')]
      const shared = { ...attemptOf(7), bytes: '0x03' }
      if (wereMined) await on.books.apply(rules.beginAnew(await on.find(keys[0]!), shared))
      on.settle(settledIn)
      on.step(11_000)
      await (await on.process('heir')).recovery().round()
      for (const key of keys) t.equal(await on.stateOf(key), 'settled')

      const { lease: late } = await on.process('late')
      const left = await on.payment(late.current, 'settling')
      await on.books.apply(rules.beginAnew(await on.find(left), shared))
      for (const settler of on.chains.settlers) settler.paymentsOf = () => [...keys, left]
      const handedOver: (string | undefined)[] = []
      on.settle(({ attempt }) => {
        handedOver.push(attempt?.bytes)
        return pending
      })
      on.step(11_000)
      await (await on.process('heir of both')).recovery().round()
      t.same(handedOver, [wereMined ? '0x03' : ''])
      t.equal((await on.find(left)).errorReason === neverSent, !wereMined)
    }
  },
)

t.test('a payment that is claimed anew, or at work with other bytes, holds up nobody', async (t) => {
  for (const state of ['claimed', 'settling'] as const) {
    const on = stage()
    const { first, second, living, heir, recovery } = await twoInOne(on, 'claimed')
    const other = { ...attemptOf(8), bytes: '0x03' }
    if (state === 'settling') await on.books.apply(rules.begin(await on.find(second), other, answer))
    const looks: (string | null)[] = []
    for (let i = 0; i < 3; i++) {
      await recovery().round()
      looks.push((await on.find(first)).errorReason)
      on.step(4_000)
      for (const { current } of [living, heir]) await on.leases.renew(current, 10_000)
    }
    const soon = 'settlement_pending'
    t.same(looks, state === 'claimed' ? [soon, soon, neverSent] : [neverSent, neverSent, neverSent])
  }
})

t.test('who says that nothing was sent frees no payment of which the books do not say so', async (t) => {
  const on = stage()
  const { lease } = await on.process('dead')
  const key = await on.payment(lease.current, 'settling')
  on.settle(() => ({ status: 'rejected', reason: 'x', message: 'never sent' }))
  on.step(11_000)
  const { recovery } = await on.process('heir')
  for (let i = 0; i < 3; i++) {
    await recovery().round()
    on.step(10_000)
  }
  t.match(await on.find(key), { state: 'pending', attempt: attemptOf(1), dueReason: 'never sent' })
})

t.test('bytes of several are not sent while a call may still free one of the payments', async (t) => {
  const on = stage()
  const { second, handedOver, recovery } = await twoInOne(on, 'settling')
  await recovery().round()
  t.same(handedOver, [null], 'its call may not know that it is stored, and say that nothing is charged')
  t.ok(await on.books.apply(rules.free(await on.find(second), 'not stored')))
})

t.test(
  'of bytes that are in a block, or of which no node could say, it is not said that they were never sent',
  async (t) => {
    const on = stage()
    const { first, second, recovery } = await twoInOne(on, 'claimed')
    await on.books.apply(rules.free(await on.find(second)))
    on.settle(() => unknown)
    for (let i = 0; i < 3; i++) {
      await recovery().round()
      on.step(3_000)
    }
    t.match(await on.find(first), { state: 'pending', errorReason: 'settlement_pending' })
    on.settle(() => pending)
    on.step(9_000)
    await recovery().round()
    t.match(await on.find(first), { errorReason: neverSent })
  },
)
