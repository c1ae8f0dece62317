import t from 'tap'
import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import { recordOf, remember, seller, startSettler } from '../../../../test/helpers/chains/evm/settler.ts'
import { isOnChain, recoverOne } from '../../../../test/helpers/chains/recoverOne.ts'
import type { Hex } from '../rpc/nodes.ts'

t.test('a broadcast whose answer is lost makes no second transaction', async (t) => {
  const { chain, settler, rpc, pay, terms } = await startSettler(t)
  const { payment, identity } = await pay()
  // Both tries of the first broadcast, because the connection is tried once more before the node counts as unavailable.
  rpc.add('eth_sendRawTransaction', { kind: 'drop-answer' }, 2)
  const attempts: SettlementAttempt[] = []
  const outcome = await settler.settle(payment, terms, identity, remember(attempts))
  t.match(outcome, { status: 'settled', transaction: attempts[0]!.transaction })
  t.equal(attempts.length, 1)
  t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
})

t.test('a broadcast that never arrives is repeated with the same bytes', async (t) => {
  const { chain, settler, rpc, pay, terms } = await startSettler(t)
  const { payment, identity } = await pay()
  rpc.add('eth_sendRawTransaction', { kind: 'refuse' }, 2)
  const attempts: SettlementAttempt[] = []
  t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'settled' })
  t.equal(attempts.length, 1)
  t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
})

t.test('a transaction that is not mined in time is pending, and found later', async (t) => {
  const { chain, settler, pay, terms } = await startSettler(t, { receiptTimeoutMs: 100 })
  const { payment, identity } = await pay()
  await chain.setAutomine(false)
  const attempts: SettlementAttempt[] = []
  const outcome = await settler.settle(payment, terms, identity, remember(attempts))
  t.match(outcome, { status: 'pending', transaction: attempts[0]!.transaction, reason: 'settlement_pending' })
  const record = recordOf(identity, attempts[0]!)
  t.match(await recoverOne(settler, record), { status: 'pending' }, 'still in the pool')
  await chain.mine()
  t.match(await recoverOne(settler, record), { status: 'settled', transaction: attempts[0]!.transaction })
  t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
})

for (const [what, spoil] of [
  ['a status that is missing', { status: undefined }],
  ['a status of another form', { status: '0x01' }],
  ['something else than an event', { logs: [null] }],
] as const)
  t.test(`a receipt with ${what} is waited out, and its payment is found later`, async (t) => {
    const { settler, rpc, pay, terms } = await startSettler(t, { receiptTimeoutMs: 100 })
    const { payment, identity } = await pay()
    const lift = rpc.add('eth_getTransactionReceipt', {
      kind: 'result',
      result: (real: unknown) => real && { ...real, ...spoil },
    })
    const attempts: SettlementAttempt[] = []
    const outcome = await settler.settle(payment, terms, identity, remember(attempts))
    t.match(outcome, { status: 'pending', reason: 'settlement_pending' })
    const record = recordOf(identity, attempts[0]!)
    t.match(await recoverOne(settler, record), { status: 'pending', reason: 'settlement_pending' })
    lift()
    t.match(await recoverOne(settler, record), { status: 'settled', transaction: attempts[0]!.transaction })
  })

t.test('a transaction that the pool lost is sent again as it was', async (t) => {
  const { chain, settler, pay, terms } = await startSettler(t, { receiptTimeoutMs: 100 })
  const { payment, identity } = await pay()
  await chain.setAutomine(false)
  const attempts: SettlementAttempt[] = []
  await settler.settle(payment, terms, identity, remember(attempts))
  await chain.dropTransaction(attempts[0]!.transaction as Hex)
  await chain.setAutomine(true)
  let outcome = await recoverOne(settler, recordOf(identity, attempts[0]!))
  // A check lasts 100 ms here, which a busy machine may need for one response. Recovery also checks again.
  for (let polls = 1; outcome.status === 'pending' && polls < 20; polls++)
    outcome = await recoverOne(settler, recordOf(identity, attempts[0]!))
  t.match(outcome, { status: 'settled', transaction: attempts[0]!.transaction })
  t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
})

t.test(
  'what a node took and lost is sent again while its buyers wait, and lets the others through',
  async (t) => {
    const { chain, settler, rpc, pay, terms } = await startSettler(t)
    const paying = [await pay(), await pay(), await pay()]
    rpc.add('eth_sendRawTransaction', { kind: 'result', result: `0x${'5'.repeat(64)}` }, 1)
    rpc.add('eth_sendRawTransactionSync', { kind: 'error', code: -32601, message: 'Method not found' })
    const attempts: SettlementAttempt[] = []
    const outcomes = await Promise.all(
      paying.map(({ payment, identity }) => settler.settle(payment, terms, identity, remember(attempts))),
    )
    t.same(
      outcomes.map(({ status }) => status),
      ['settled', 'settled', 'settled'],
    )
    t.equal(attempts.length, 3, 'no second transaction was signed')
    t.equal(await chain.balanceUsdc(seller as Hex), 30_000n)
  },
)

t.test('nobody is told that a transfer is gone while the nodes can not be asked', async (t) => {
  const { settler, rpc, pay, terms } = await startSettler(t, { rpcTimeoutMs: 200 })
  const { payment, identity } = await pay()
  const attempts: SettlementAttempt[] = []
  await settler.settle(payment, terms, identity, remember(attempts))
  const record = recordOf(identity, attempts[0]!, attempts[0]!.transaction)
  for (const fault of [{ kind: 'refuse' }, { kind: 'http-status', status: 429 }, { kind: 'hold' }] as const) {
    const lift = rpc.add('*', fault)
    t.equal(await isOnChain(settler, record), 'unknown', fault.kind)
    t.match(await recoverOne(settler, record), { status: 'pending' }, fault.kind)
    lift()
  }
})

t.test('with the nodes away nothing is signed, and the refusal can be tried again', async (t) => {
  const { settler, rpc, pay, terms } = await startSettler(t, { rpcTimeoutMs: 200 })
  const { payment, identity } = await pay()
  rpc.add('*', { kind: 'http-status', status: 503 })
  const attempts: SettlementAttempt[] = []
  t.match(await settler.verify(payment, terms, identity, { storeId: 'store' }), {
    ok: false,
    transient: true,
  })
  t.match(await settler.settle(payment, terms, identity, remember(attempts)), {
    status: 'rejected',
    transient: true,
  })
  t.equal(attempts.length, 0)
  rpc.clear()
  t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'settled' })
})

t.test('a node that serves another chain is not believed', async (t) => {
  const { settler, rpc, pay, terms } = await startSettler(t)
  const { payment, identity } = await pay()
  rpc.add('eth_chainId', { kind: 'result', result: '0x1' })
  t.match(await settler.verify(payment, terms, identity, { storeId: 'store' }), {
    ok: false,
    transient: true,
  })
  t.match(await settler.settle(payment, terms, identity, async () => true), {
    status: 'rejected',
    transient: true,
  })
  t.match(await settler.diagnose(), [/serves chain 1, expected 84532/])
})

t.test('the second node takes over from one that is broken', async (t) => {
  const { chain, rpc, another, pay, terms } = await startSettler(t)
  rpc.add('*', { kind: 'http-status', status: 500 })
  const settler = another({ rpcUrls: [rpc.url, chain.rpcUrl] })
  const { payment, identity } = await pay()
  t.match(await settler.verify(payment, terms, identity, { storeId: 'store' }), { ok: true })
  t.match(await settler.settle(payment, terms, identity, async () => true), { status: 'settled' })
})
