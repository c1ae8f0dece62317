import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { privateKeyToAccount } from 'viem/accounts'
import type { OpenAttempt, SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { SettleOutcome, Settler } from '../../../../core/ports/chains/settler.ts'
import { numberTaken } from '../../../../core/ports/refusals.ts'
import { type SettlerFixture, seller, startSettler } from '../../../../test/helpers/chains/evm/settler.ts'
import type { Hex } from '../rpc/nodes.ts'

/** The open attempts in a database, and what the database refuses to every process. */
function openStore() {
  const open = new Map<string, SettlementAttempt>()
  return {
    async store(attempt: SettlementAttempt): Promise<boolean> {
      await sleep(5)
      if (open.has(attempt.sequence!)) throw numberTaken()
      open.set(attempt.sequence!, attempt)
      return true
    },
    openAttempts: async (): Promise<OpenAttempt[]> =>
      [...open.values()].map((attempt) => ({ ...attempt, bytes: '' })),
  }
}

type Paid = Awaited<ReturnType<SettlerFixture['pay']>>

t.test('of two processes that both believe to have a key none uses a number of the other’s', async (t) => {
  // They share one database, so each knows the other's nonces.
  const { chain, another, pay, terms } = await startSettler(t, { sharedKeyMs: 0 })
  const { store, openAttempts } = openStore()
  const settlers = [another(), another()]
  for (const settler of settlers) {
    await settler.start([])
    await settler.keys![0]!.followUp!(openAttempts)
  }
  const settle = (settler: Settler, { payment, identity }: Paid) =>
    settler.settle(payment, terms, identity, store)
  let left: { readonly settler: Settler; readonly paid: Paid }[] = []
  for (let i = 0; i < 12; i++) left.push({ settler: settlers[i % 2]!, paid: await pay() })
  const seen: SettleOutcome['status'][] = []
  for (let round = 0; left.length > 0 && round < 20; round++) {
    const outcomes = await Promise.all(left.map(({ settler, paid }) => settle(settler, paid)))
    seen.push(...outcomes.map(({ status }) => status))
    left = left.filter((_, i) => outcomes[i]!.status === 'rejected')
  }
  t.equal(left.length, 0)
  t.equal(seen.filter((status) => status === 'settled').length, 12)
  t.ok(seen.includes('rejected'), 'they did meet')
  t.notOk(seen.includes('pending'), 'nothing was sent whose number somebody else had')
  t.equal(await chain.balanceUsdc(seller as Hex), 120_000n)
})

t.test('a process that stood still uses up no number once another one has the key', async (t) => {
  const { chain, rpc, another, pay, terms } = await startSettler(t, { storeTimeoutMs: 100 })
  let isMine = true
  const frozen = another()
  await frozen.start([], () => isMine)
  const { payment, identity } = await pay()
  const held = await pay()
  // The first is never stored, so its nonce waits to be filled, and the second waits behind it.
  const filling = rpc.calls('eth_sendRawTransaction')
  const stuck = frozen.settle(payment, terms, identity, async () => {
    isMine = false
    return new Promise<boolean>(() => {})
  })
  t.match(await stuck, { status: 'rejected' })
  await sleep(600)
  await frozen.recover([])
  t.equal(rpc.calls('eth_sendRawTransaction'), filling, 'nothing was sent')

  const next = another()
  await next.start([])
  t.match(await next.settle(held.payment, terms, held.identity, async () => true), { status: 'settled' })
  t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
})

t.test(
  'of two installations with one key the second says so and waits, before its seller works',
  async (t) => {
    const { chain, another, pay, terms } = await startSettler(t)
    const sharedKeyMs = 4_000
    const [first, second] = [another({ sharedKeyMs }), another({ sharedKeyMs })]
    await first.start([])
    await second.start([])
    const buy = async (settler: Settler) => {
      const { payment, identity } = await pay()
      const verified = await settler.verify(payment, terms, identity, { storeId: 'store' })
      if (!verified.ok) return verified
      return settler.settle(payment, terms, identity, async () => true, verified.hold)
    }
    t.match(await buy(second), { status: 'settled' }, 'nobody else is there')
    // Time for the next look.
    await sleep(2_100)
    t.match(await buy(first), { ok: false, reason: 'settling_key_shared', transient: true })
    t.match(await first.diagnose(), [/Another program signs with the settling key/])
    t.match(first.refusesAll!(), { reason: 'settling_key_shared' }, 'and it says so without asking the chain')
    t.equal(second.refusesAll!(), undefined)
    for (let i = 0; i < 3; i++)
      t.match(await buy(second), { status: 'settled' }, 'it is not kept from settling')
    t.strictSame(await second.diagnose(), [])
    t.equal(await chain.balanceUsdc(seller as Hex), 40_000n)

    let outcome: Awaited<ReturnType<typeof buy>>
    do {
      await sleep(500)
      outcome = await buy(first)
    } while (!('status' in outcome))
    t.match(outcome, { status: 'settled' }, 'when it is quiet the first one may')
    t.equal(first.refusesAll!(), undefined)
    t.strictSame(await first.diagnose(), [])
    t.equal(await chain.balanceUsdc(seller as Hex), 50_000n)
  },
)

t.test('who starts while somebody else’s transactions wait in the pool waits, too', async (t) => {
  const { chain, another, pay, terms } = await startSettler(t, { receiptTimeoutMs: 200 })
  const [first, second] = [another(), another()]
  await first.start([])
  await chain.setAutomine(false)
  const sent = await pay()
  t.match(await first.settle(sent.payment, terms, sent.identity, async () => true), { status: 'pending' })
  await second.start([])
  const { payment, identity } = await pay()
  t.match(await second.verify(payment, terms, identity, { storeId: 'store' }), {
    ok: false,
    reason: 'settling_key_shared',
  })
})

t.test('what a former process has filled keeps nobody waiting for longer than its block', async (t) => {
  const { chain, settlingKey, another, pay, terms } = await startSettler(t)
  const former = privateKeyToAccount(settlingKey)
  await chain.setAutomine(false)
  const filler = await former.signTransaction({
    chainId: chain.chainId,
    type: 'eip1559',
    nonce: 0,
    to: former.address,
    gas: 21_000n,
    maxFeePerGas: 4_000_000_000n,
    maxPriorityFeePerGas: 1_000_000_000n,
  })
  await chain.rpc('eth_sendRawTransaction', filler)
  const next = another()
  await next.start([])
  const { payment, identity } = await pay()
  const verify = () => next.verify(payment, terms, identity, { storeId: 'store' })
  t.match(await verify(), { ok: false, reason: 'settling_key_shared' }, 'nobody knows whose it is')
  await chain.mine()
  const beganMs = performance.now()
  while (!(await verify()).ok && performance.now() - beganMs < 10_000) await sleep(100)
  t.ok(performance.now() - beganMs < 10_000)
})
