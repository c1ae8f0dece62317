import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { privateKeyToAccount } from 'viem/accounts'
import type { OpenAttempt, SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { Settler } from '../../../../core/ports/chains/settler.ts'
import { silentLog } from '../../../../core/ports/log.ts'
import { remember, type SettlerFixture, startSettler } from '../../../../test/helpers/chains/evm/settler.ts'
import type { Store } from './account.ts'
import { KnownNonces } from './nonces.ts'

async function buyFrom(
  settler: Settler,
  { pay, terms }: Pick<SettlerFixture, 'pay' | 'terms'>,
  store: Store = async () => true,
) {
  const { payment, identity } = await pay()
  const verified = await settler.verify(payment, terms, identity, { storeId: 'store' })
  if (!verified.ok) return verified
  return settler.settle(payment, terms, identity, store, verified.hold)
}

/** A settler that has started, and one purchase after the other with its key. */
async function startBuying(t: Test, options: Parameters<typeof startSettler>[1] = {}) {
  const stage = await startSettler(t, { receiptTimeoutMs: 2_000, ...options })
  const { settler } = stage
  await settler.start([])
  return { ...stage, buy: (store?: Store) => buyFrom(settler, stage, store) }
}

for (const more of [50, 2_000_000_000]) {
  t.test(`a node that once says ${more} too many as the account's next number stops nobody`, async (t) => {
    const { rpc, settler, buy } = await startBuying(t)
    t.match(await buy(), { status: 'settled' })
    // Time for the next look.
    await sleep(2_100)
    const tooMany = (real: unknown) => `0x${(Number(real) + more).toString(16)}`
    rpc.add('eth_getTransactionCount', { kind: 'result', result: tooMany }, 1)
    t.match(await buy(), { status: 'settled' })
    await sleep(2_100)
    t.match(await buy(), { status: 'settled' }, 'and by the next number')
    t.strictSame(await settler.diagnose(), [])
  })
}

for (const pauseMs of [2_100, 800])
  t.test(
    `a number that was said twice, and is taken back within ${pauseMs} ms, is used by nobody`,
    async (t) => {
      const { rpc, settler, buy } = await startBuying(t, { sharedKeyMs: 500 })
      t.match(await buy(), { status: 'settled' })
      // Time for the next look.
      await sleep(2_100)
      const tooMany = (real: unknown) => `0x${(Number(real) + 30).toString(16)}`
      rpc.add('eth_getTransactionCount', { kind: 'result', result: tooMany }, 2)
      t.match(await buy(), { ok: false, reason: 'settling_key_shared' })
      // No other program has signed meanwhile, as the node reports at each check from now on.
      await sleep(pauseMs)
      t.match(await buy(), { status: 'settled' })
      t.strictSame(await settler.diagnose(), [])
    },
  )

t.test('one wrong count of used numbers, while one has to be filled, leaves no gap', async (t) => {
  const { rpc, buy } = await startBuying(t, { storeTimeoutMs: 100 })
  t.match(await buy(), { status: 'settled' })
  const tooMany = (real: unknown) => `0x${(Number(real) + 30).toString(16)}`
  // Its nonce is filled, because the store does not report whether it has the attempt.
  const never = buy(async () => {
    rpc.add('eth_getTransactionCount', { kind: 'result', result: tooMany }, 1)
    return new Promise<boolean>(() => {})
  })
  t.match(await never, { status: 'rejected' })
  await sleep(3_000)
  for (let i = 0; i < 2; i++) t.match(await buy(), { status: 'settled' })
})

t.test('numbers that somebody else has used are not taken back by a node that lags', async (t) => {
  const { chain, rpc, settlingKey, buy } = await startBuying(t, { sharedKeyMs: 500 })
  t.match(await buy(), { status: 'settled' })
  await sleep(2_100)
  const { address } = privateKeyToAccount(settlingKey)
  for (let i = 0; i < 2; i++) await chain.send({ from: address, to: address })
  t.match(await buy(), { ok: false, reason: 'settling_key_shared' })
  await sleep(800)
  // One of the nodes that are asked when the wait is over.
  rpc.add('eth_getTransactionCount', { kind: 'result', result: '0x1' }, 1)
  t.match(await buy(), { status: 'settled' })
  await sleep(2_100)
  t.match(await buy(), { status: 'settled' }, 'and nobody waits once more')
})

/** Attempts in the ledger that have settled their payments. */
const minedOf = (attempts: readonly SettlementAttempt[]): OpenAttempt[] =>
  attempts.map((attempt) => ({ ...attempt, bytes: '', isMined: true }))

for (const wrong of [1, 2, 4]) {
  t.test(`a start into ${wrong} answers that say 30 numbers too many leaves no gap`, async (t) => {
    const stage = await startSettler(t, { receiptTimeoutMs: 2_000 })
    const { settler, rpc } = stage
    const tooMany = (real: unknown) => `0x${(Number(real) + 30).toString(16)}`
    rpc.add('eth_getTransactionCount', { kind: 'result', result: tooMany }, wrong)
    await settler.start([])
    t.match(await buyFrom(settler, stage), { status: 'settled' })

    rpc.add('eth_getTransactionCount', { kind: 'result', result: tooMany }, wrong)
    await settler.start([])
    t.match(await buyFrom(settler, stage), { status: 'settled' }, 'nor when the key comes back')
  })
}

for (const isFirstBehind of [true, false]) {
  t.test(
    `behind two nodes, ${isFirstBehind ? 'the first' : 'the second'} of which is some blocks behind, a restart goes on at once with the next number`,
    async (t) => {
      const stage = await startSettler(t, { receiptTimeoutMs: 2_000 })
      const { settler, rpc, another } = stage
      const attempts: SettlementAttempt[] = []
      await settler.start([])
      for (let i = 0; i < 5; i++)
        t.match(await buyFrom(settler, stage, remember(attempts)), { status: 'settled' })
      let responses = isFirstBehind ? 0 : 1
      const alternately = (real: unknown) =>
        responses++ % 2 === 0 ? `0x${Math.max(0, Number(real) - 3).toString(16)}` : real
      rpc.add('eth_getTransactionCount', { kind: 'result', result: alternately })
      const known = another()
      const beganMs = performance.now()
      await known.start(minedOf(attempts))
      t.ok(performance.now() - beganMs < 1_000, 'the books know of all its numbers')
      for (let i = 0; i < 3; i++) t.match(await buyFrom(known, stage), { status: 'settled' })
      t.strictSame(await known.diagnose(), [], 'and it does not take itself for somebody else')
      const unknown = another()
      await unknown.start([])
      t.match(await buyFrom(unknown, stage), { status: 'settled' }, 'also where the books know of none')
      t.strictSame(await unknown.diagnose(), [])
    },
  )
}

t.test(
  'a payment that is open with an absurd number neither holds up a start nor has numbers filled up to it',
  async (t) => {
    const errors: object[] = []
    const log = { ...silentLog, error: (facts: object) => void errors.push(facts) }
    const { settler, rpc } = await startSettler(t, { strandedMs: 100, log })
    const sequence = '300000000'
    await settler.start([{ settler: settler.id, bytes: '', transaction: `0x${'11'.repeat(32)}`, sequence }])
    t.match(errors, [{ nonce: 0, signedBelow: 300_000_000 }])
    await sleep(500)
    t.equal(rpc.calls('eth_sendRawTransaction'), 0)
  },
)

t.test('numbers that wait behind an absurd gap are not named one by one', (t) => {
  const known = new KnownNonces()
  known.live.set(300_000_000, { bytes: '0x', maxWei: 0n, payments: 1, sinceMs: 0 })
  t.strictSame(known.strandedFrom(0, 0), [])
  t.strictSame(known.strandedFrom(0, 0), [])
  known.live.set(9_000, { bytes: '0x', maxWei: 0n, payments: 1, sinceMs: 0 })
  t.equal(known.strandedFrom(0, 0).length, 9_000)
  t.end()
})
