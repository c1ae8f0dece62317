import t from 'tap'
import {
  attemptOf,
  response,
  settledIn,
  stage,
  pending as unknown,
} from '../../test/helpers/core/payments/recovery.ts'
import { neverSent, type PaymentState, type SettlementAttempt } from '../domain/payment.ts'
import type { SettleOutcome } from '../ports/chains/settler.ts'
import * as rules from './rules.ts'

/** The chain has no trace of it, and it can still land. */
const pending: SettleOutcome = { ...unknown, isUnused: true } as SettleOutcome

/** Two payments in one transaction: one of a dead process that is pending, one of a live process. */
async function twoInOne(on: ReturnType<typeof stage>, state: PaymentState) {
  const { lease: dead } = await on.process('dead')
  const first = await on.payment(dead.current, 'pending')
  on.step(11_000)
  const { lease: living } = await on.process('living')
  const second = await on.payment(living.current, state)
  for (const settler of on.chains.settlers) settler.paymentsOf = () => [first, second]
  const sent: (SettlementAttempt | null)[] = []
  on.settle(({ attempt }) => {
    sent.push(attempt)
    return pending
  })
  const { recovery, lease: heir } = await on.process('heir')
  return { first, second, sent: sent, living, heir, recovery }
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
      const sent: (string | undefined)[] = []
      on.settle(({ key, attempt }) => {
        if (key !== keys[2]) sent.push(attempt?.bytes)
        return pending
      })
      on.step(11_000)
      const { recovery } = await on.process('heir')
      await recovery().round()
      t.same(sent, [expected, expected], `the third is ${third}`)
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
    for (const key of keys) await on.ledger.apply(rules.beginAgain(await on.find(key), attemptOf(7)))
    const third = await on.payment(lease.current, 'claimed')
    for (const settler of on.chains.settlers) settler.paymentsOf = () => [...keys, third]
    const sent: (string | undefined)[] = []
    let isUsed = false
    on.settle(({ attempt }) => {
      sent.push(attempt?.bytes)
      return isUsed ? { status: 'rejected', reason: 'x', message: 'never sent' } : pending
    })
    on.step(11_000)
    const { recovery, lease: heir } = await on.process('heir')
    await recovery().round()
    const marked = { state: 'pending', errorReason: neverSent, attempt: attemptOf(7), hasResponse: true }
    for (const key of keys) t.match(await on.find(key), marked)
    t.match(await on.ledger.openAttempts('fake'), [{ isUnsent: true }, { isUnsent: true }])

    // Its own payment goes another way meanwhile: by its state alone the bytes could be sent now.
    const again = await on.ledger.claim({ ...(await on.find(third)), lease: heir.current.id })
    t.ok(again.won)
    t.ok(await on.ledger.apply(rules.begin(await on.find(third), attemptOf(8), response)))
    on.underWay.add((await on.find(third)).row)
    on.step(3_000)
    await recovery().round()
    t.same([...new Set(sent)], [''], 'whoever has said so stands by it')

    isUsed = true
    on.step(10_000)
    await recovery().round()
    for (const key of keys)
      t.match(await on.find(key), {
        state: 'rejected',
        attempt: null,
        hasResponse: false,
        errorReason: neverSent,
      })
  },
)

t.test('nothing is said of bytes while a call may still store them', async (t) => {
  const on = stage()
  const { first, second, sent, recovery } = await twoInOne(on, 'claimed')
  await recovery().round()
  t.same(sent, [null])
  t.match(await on.find(first), { state: 'pending', errorReason: 'settlement_pending' })
  await on.ledger.apply(rules.free(await on.find(second)))
  on.step(9_000)
  await recovery().round()
  t.match(await on.find(first), { state: 'pending', errorReason: neverSent })
})

t.test(
  'bytes are not sent that some payment in them was not stored with, whatever it was stored with before',
  async (t) => {
    const on = stage()
    const { lease } = await on.process('dead')
    // The database refused one of three; the other two went without it, and only one of them is stored with the bytes for two.
    const [retried, before] = [
      await on.payment(lease.current, 'settling'),
      await on.payment(lease.current, 'settling'),
    ]
    const third = await on.payment(lease.current, 'claimed')
    const [ofThree, ofTwo] = [attemptOf(7), { ...attemptOf(8), bytes: '0x03' }]
    for (const key of [retried, before]) await on.ledger.apply(rules.beginAgain(await on.find(key), ofThree))
    await on.ledger.apply(rules.beginAgain(await on.find(retried), ofTwo))
    for (const settler of on.chains.settlers)
      settler.paymentsOf = ({ bytes }) =>
        bytes === ofTwo.bytes ? [retried, before] : [retried, before, third]
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
    t.equal(await on.stateOf(retried), 'rejected')
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
      if (wereMined) await on.ledger.apply(rules.beginAgain(await on.find(keys[0]!), shared))
      on.settle(settledIn)
      on.step(11_000)
      await (await on.process('heir')).recovery().round()
      for (const key of keys) t.equal(await on.stateOf(key), 'settled')

      const { lease: late } = await on.process('late')
      const left = await on.payment(late.current, 'settling')
      await on.ledger.apply(rules.beginAgain(await on.find(left), shared))
      for (const settler of on.chains.settlers) settler.paymentsOf = () => [...keys, left]
      const sent: (string | undefined)[] = []
      on.settle(({ attempt }) => {
        sent.push(attempt?.bytes)
        return pending
      })
      on.step(11_000)
      await (await on.process('heir of both')).recovery().round()
      t.same(sent, [wereMined ? '0x03' : ''])
      t.equal((await on.find(left)).errorReason === neverSent, !wereMined)
    }
  },
)

t.test('a payment that is claimed anew, or at work with other bytes, holds up nobody', async (t) => {
  for (const state of ['claimed', 'settling'] as const) {
    const on = stage()
    const { first, second, living, heir, recovery } = await twoInOne(on, 'claimed')
    const other = { ...attemptOf(8), bytes: '0x03' }
    if (state === 'settling') await on.ledger.apply(rules.begin(await on.find(second), other, response))
    const polls: (string | null)[] = []
    for (let i = 0; i < 3; i++) {
      await recovery().round()
      polls.push((await on.find(first)).errorReason)
      on.step(4_000)
      for (const { current } of [living, heir]) await on.leases.renew(current, 10_000)
    }
    const soon = 'settlement_pending'
    t.same(polls, state === 'claimed' ? [soon, soon, neverSent] : [neverSent, neverSent, neverSent])
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
  const { second, sent, recovery } = await twoInOne(on, 'settling')
  await recovery().round()
  t.same(sent, [null], 'its call may not know that it is stored, and say that nothing is charged')
  t.ok(await on.ledger.apply(rules.free(await on.find(second), 'not stored')))
})

t.test(
  'of bytes that are in a block, or of which no node could say, it is not said that they were never sent',
  async (t) => {
    const on = stage()
    const { first, second, recovery } = await twoInOne(on, 'claimed')
    await on.ledger.apply(rules.free(await on.find(second)))
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
