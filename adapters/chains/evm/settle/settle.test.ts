import t from 'tap'
import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import { remember, seller, startSettler } from '../../../../test/helpers/chains/evm/settler.ts'

t.test('a payment is checked at once, verified by the chain, settled and proved by its events', async (t) => {
  const { chain, settler, buyer, pay, terms } = await startSettler(t)
  const { payment, identity } = await pay()
  t.notOk(settler.check(payment, terms) instanceof Promise, 'an account’s signature needs no chain')
  t.match(await settler.verify(payment, terms, identity, { storeId: 'store' }), { ok: true })

  const attempts: SettlementAttempt[] = []
  const outcome = await settler.settle(payment, terms, identity, remember(attempts))
  t.match(outcome, { status: 'settled', transaction: attempts[0]!.transaction })
  t.equal(await chain.balanceUsdc(seller as `0x${string}`), 10_000n)
  t.equal(await chain.balanceUsdc(buyer.address), 4_990_000n)
  t.equal(attempts.length, 1)
  t.match(attempts[0], { settler: /^evm:eip155:84532:0x[0-9a-f]{40}$/, sequence: /^\d+$/ })
})

t.test('twenty payments at once are twenty transfers', async (t) => {
  const { chain, settler, pay, terms } = await startSettler(t)
  const payments = await Promise.all(Array.from({ length: 20 }, () => pay()))
  const attempts: SettlementAttempt[] = []
  const outcomes = await Promise.all(
    payments.map(({ payment, identity }) => settler.settle(payment, terms, identity, remember(attempts))),
  )
  t.same(
    outcomes.map(({ status }) => status),
    Array(20).fill('settled'),
  )
  t.equal(await chain.balanceUsdc(seller as `0x${string}`), 200_000n)
  t.equal(new Set(attempts.map(({ sequence }) => sequence)).size, 20, 'each has its own account nonce')
})

t.test('a paid call costs the node one simulation, one broadcast and receipts', async (t) => {
  const { settler, rpc, pay, terms } = await startSettler(t)
  const settleOne = async () => {
    const { payment, identity } = await pay()
    const verified = await settler.verify(payment, terms, identity, { storeId: 'store' })
    if (!verified.ok) throw new Error(verified.message)
    const outcome = await settler.settle(payment, terms, identity, async () => true, verified.hold)
    t.match(outcome, { status: 'settled' })
  }
  await settleOne()
  rpc.resetCounters()
  for (let i = 0; i < 5; i++) await settleOne()
  t.equal(rpc.calls('eth_call'), 5)
  t.equal(rpc.calls('eth_sendRawTransaction'), 5)
  t.equal(rpc.calls() - rpc.calls('eth_getTransactionReceipt'), 10, 'nothing else is asked')
})

t.test(
  'what the store does not take is not broadcast, and its account nonce is used by the next',
  async (t) => {
    const { settler, rpc, pay, terms } = await startSettler(t)
    const attempts: SettlementAttempt[] = []
    const refused = await pay()
    const no = await settler.settle(refused.payment, terms, refused.identity, async (attempt) => {
      attempts.push(attempt)
      return false
    })
    t.match(no, { status: 'rejected', transient: true })
    const broken = await settler.settle(refused.payment, terms, refused.identity, async (attempt) => {
      attempts.push(attempt)
      throw new Error('disk full')
    })
    t.match(broken, { status: 'rejected', transient: true })
    t.equal(rpc.calls('eth_sendRawTransaction'), 0)

    const { payment, identity } = await pay()
    t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'settled' })
    t.equal(new Set(attempts.map(({ sequence }) => sequence)).size, 1)
  },
)

t.test(
  'the fees are known when the seller has answered: a settlement waits for its broadcast only',
  async (t) => {
    const { settler, rpc, pay, terms } = await startSettler(t)
    await settler.start([])
    const { payment, identity } = await pay()
    t.match(await settler.verify(payment, terms, identity, { storeId: 'store' }), { ok: true })
    await rpc.whenCalled('eth_getBalance')
    rpc.add('eth_getBlockByNumber', { kind: 'hold' })
    t.match(await settler.settle(payment, terms, identity, async () => true), { status: 'settled' })
  },
)
