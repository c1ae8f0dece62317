import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { privateKeyToAccount } from 'viem/accounts'
import { startSettler } from '../settler.fixture.ts'

/** A settler that has started, and a purchase after the other with its key. */
async function startBuying(t: Test, options: Parameters<typeof startSettler>[1] = {}) {
  const stage = await startSettler(t, { receiptTimeoutMs: 2_000, ...options })
  const { settler, pay, terms } = stage
  await settler.start([])
  async function buy(store: () => Promise<boolean> = async () => true) {
    const { payment, identity } = await pay()
    const verified = await settler.verify(payment, terms, identity, { storeId: 'store' })
    if (!verified.ok) return verified
    return settler.settle(payment, terms, identity, store, verified.hold)
  }
  return { ...stage, buy }
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
      // Nobody else has signed meanwhile, as the node says at each look from now on.
      await sleep(pauseMs)
      t.match(await buy(), { status: 'settled' })
      t.strictSame(await settler.diagnose(), [])
    },
  )

t.test('one wrong count of used numbers, while one has to be filled, leaves no gap', async (t) => {
  const { rpc, buy } = await startBuying(t, { storeTimeoutMs: 100 })
  t.match(await buy(), { status: 'settled' })
  const tooMany = (real: unknown) => `0x${(Number(real) + 30).toString(16)}`
  // Its number is filled, because the store does not say whether it has it.
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
  // One of the nodes that are asked when it is over.
  rpc.add('eth_getTransactionCount', { kind: 'result', result: '0x1' }, 1)
  t.match(await buy(), { status: 'settled' })
  await sleep(2_100)
  t.match(await buy(), { status: 'settled' }, 'and nobody waits once more')
})
