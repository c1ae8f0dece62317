import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { mnemonicToAccount } from 'viem/accounts'
import type { SettlementAttempt } from '../../../core/domain/payment.ts'
import type { Settler } from '../../../core/ports/chains/settler.ts'
import { LOCAL_EVM_MNEMONIC } from '../../../localnet/evm/startLocalEvm.ts'
import {
  newAccount,
  remember,
  type SettlerFixture,
  signPayment,
  startSettler,
} from '../../../test/helpers/chains/evm/settler.ts'

/** Leaves the settling account with ether for some ten settlements. */
async function makePoor({ chain }: SettlerFixture): Promise<void> {
  const { address } = mnemonicToAccount(LOCAL_EVM_MNEMONIC, { addressIndex: 3 })
  await chain.rpc('anvil_setNextBlockBaseFeePerGas', '0x3b9aca00')
  await chain.rpc('anvil_setBalance', address, `0x${(10n * 600_000n * 2_000_000_000n).toString(16)}`)
}

t.test(
  'a seller who never answers, paid by himself, does not take up all that a settling account can pay for',
  async (t) => {
    const fixture = await startSettler(t, { headMaxAgeMs: 0 })
    const { settler, pay, terms } = fixture
    const verify = async (storeId: string) => {
      const { payment, identity } = await pay()
      const verified = await settler.verify(payment, terms, identity, { storeId })
      return { payment, identity, verified }
    }
    await makePoor(fixture)
    let held = 0
    while ((await verify('silent')).verified.ok) held++
    t.ok(held > 0 && held < 20, `${held} places of 1024`)
    // Before a payment can give way.
    await sleep(2_200)
    const { payment, identity, verified } = await verify('neighbour')
    t.strictSame(verified.ok || verified.reason, true, 'a payment of the neighbour')
    if (!verified.ok) return
    t.match(await settler.settle(payment, terms, identity, async () => true, verified.hold), {
      status: 'settled',
    })
  },
)

t.test('nobody who waits for his seller gives way to what the chain then refuses', async (t) => {
  const fixture = await startSettler(t, { headMaxAgeMs: 0 })
  const { settler, pay, terms } = fixture
  await makePoor(fixture)
  const held = []
  for (;;) {
    const { payment, identity } = await pay()
    const verified = await settler.verify(payment, terms, identity, { storeId: 'honest' })
    if (!verified.ok) break
    held.push({ payment, identity, hold: verified.hold })
  }
  t.ok(held.length > 2, `${held.length} are held`)
  await sleep(2_100)
  for (let i = 0; i < 3; i++) {
    const payment = await signPayment(newAccount(), terms)
    const checked = await settler.check(payment, terms)
    if (!checked.ok) throw new Error(checked.message)
    t.match(await settler.verify(payment, terms, checked.identity, { storeId: 'junk' }), { ok: false })
  }
  const first = held.slice(0, 3)
  for (const { payment, identity, hold } of first)
    t.match(await settler.settle(payment, terms, identity, async () => true, hold), { status: 'settled' })
})

t.test('what a former process has signed does not let more in than can be paid for', async (t) => {
  const fixture = await startSettler(t, { headMaxAgeMs: 0, receiptTimeoutMs: 50 })
  const { rpc, settler, another, pay, terms } = fixture
  await makePoor(fixture)
  const countHeld = async (by: Settler): Promise<number> => {
    for (let held = 0; ; held++) {
      const { payment, identity } = await pay()
      const verified = await by.verify(payment, terms, identity, { storeId: 'store' })
      if (!verified.ok) return held
    }
  }
  rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
  const attempts: SettlementAttempt[] = []
  for (let i = 0; i < 3; i++) {
    const { payment, identity } = await pay()
    await settler.settle(payment, terms, identity, remember(attempts))
  }
  await settler.close()
  const alone = another()
  await alone.start([])
  const heir = another()
  await heir.start(attempts)
  const most = await countHeld(alone)
  t.ok(most > 6, `${most} where nothing is on its way`)
  t.ok((await countHeld(heir)) <= most - 3)
})

t.test(
  'payments that the chain refuses do not take up what a settling account can pay for while they are looked at',
  async (t) => {
    const fixture = await startSettler(t, { headMaxAgeMs: 0 })
    const { rpc, settler, pay, terms } = fixture
    await makePoor(fixture)
    const lift = rpc.add('eth_call', { kind: 'hold' })
    const junk = Array.from({ length: 30 }, async (_, i) => {
      await sleep(10 * i)
      const payment = await signPayment(newAccount(), terms)
      const checked = await settler.check(payment, terms)
      if (!checked.ok) throw new Error(checked.message)
      return settler.verify(payment, terms, checked.identity, { storeId: 'store' })
    })
    // The chain is asked for as many as are let through.
    await sleep(500)
    const { payment, identity } = await pay()
    const verifying = settler.verify(payment, terms, identity, { storeId: 'neighbour' })
    await sleep(100)
    lift()
    for (const one of await Promise.all(junk)) t.notOk(one.ok)
    const verified = await verifying
    t.strictSame(verified.ok || verified.reason, true, 'a payment of the neighbour')
  },
)
