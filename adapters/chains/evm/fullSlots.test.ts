import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { newAccount, signPayment, startSettler } from '../../../test/helpers/chains/evm/settler.ts'

t.test(
  'payments of empty wallets, while the chain is asked for them, take no place of one that is good',
  async (t) => {
    const fixture = await startSettler(t, { maxInFlight: 64 })
    const { rpc, settler, pay, terms } = fixture
    const present = async (storeId: string) => {
      const { payment, identity } = await pay()
      return { payment, identity, verified: await settler.verify(payment, terms, identity, { storeId }) }
    }
    const held = await Promise.all(Array.from({ length: 20 }, () => present('honest')))
    t.equal(held.filter(({ verified }) => verified.ok).length, 20)
    await sleep(2_100)
    // A node that answers after 100 ms.
    const lift = rpc.add('eth_call', { kind: 'hold' })
    const junk = async (storeId: string) => {
      const payment = await signPayment(newAccount(), terms)
      const checked = await settler.check(payment, terms)
      if (!checked.ok) throw new Error(checked.message)
      return () => settler.verify(payment, terms, checked.identity, { storeId })
    }
    const signed = await Promise.all(Array.from({ length: 90 }, (_, i) => junk(`link of store ${i % 9}`)))
    const asked = signed.map((verify) => verify())
    await sleep(300)
    lift()
    t.notOk((await Promise.all(asked)).some(({ ok }) => ok))
    let settled = 0
    for (const { payment, identity, verified } of held) {
      if (!verified.ok) continue
      const outcome = await settler.settle(payment, terms, identity, async () => true, verified.hold)
      if (outcome.status === 'settled') settled++
    }
    t.equal(settled, 20, 'payments that were called good, and whose seller worked, settle')
  },
)
