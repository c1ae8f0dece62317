import t, { type Test } from 'tap'
import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import { remember, seller, startSettler } from '../../../../test/helpers/chains/evm/settler.ts'
import type { RpcFault } from '../../../../test/helpers/localnet/startFaultyRpc.ts'
import type { EvmSettlerOptions } from '../options.ts'

const method = 'eth_sendRawTransactionSync'

/** A settler that has probed its node, as every gateway does at startup. */
async function started(t: Test, changes: Partial<EvmSettlerOptions> = {}) {
  // What is counted here is transactions, and each payment has its own.
  const fixture = await startSettler(t, { maxPaymentsPerTransaction: 1, ...changes })
  await fixture.settler.start([])
  fixture.rpc.resetCounters()
  const attempts: SettlementAttempt[] = []
  const settleOne = async () => {
    const { payment, identity } = await fixture.pay()
    const verified = await fixture.settler.verify(payment, fixture.terms, identity, { storeId: 'store' })
    if (!verified.ok) throw new Error(verified.message)
    return fixture.settler.settle(payment, fixture.terms, identity, remember(attempts), verified.hold)
  }
  const earned = () => fixture.chain.balanceUsdc(seller as `0x${string}`)
  return { ...fixture, attempts, settleOne, earned }
}

t.test('where the node waits for the receipt, a paid call is a simulation and a broadcast', async (t) => {
  const { rpc, settleOne, earned } = await started(t)
  t.match(await settleOne(), { status: 'settled' })
  rpc.resetCounters()
  for (let i = 0; i < 5; i++) t.match(await settleOne(), { status: 'settled' })
  t.equal(rpc.calls('eth_call'), 5)
  t.equal(rpc.calls(method), 5)
  t.equal(rpc.calls(), 10, 'nothing else is asked')
  t.equal(await earned(), 60_000n)
})

t.test('whatever it answers instead, the transaction is found, and there is no second one', async (t) => {
  const { rpc, attempts, settleOne, earned } = await started(t, {
    rpcTimeoutMs: 300,
    receiptTimeoutMs: 3_000,
  })
  const faults: Record<string, RpcFault> = {
    'an answer that is lost': { kind: 'drop-answer' },
    'a connection that breaks': { kind: 'refuse' },
    'a timeout of its own': { kind: 'error', code: 4, message: 'not processed in 20 s' },
    'a gap of nonces': { kind: 'error', code: 6, message: 'nonce gap', data: '0x1' },
    'too many requests': { kind: 'http-status', status: 429 },
    'another receipt': { kind: 'result', result: { transactionHash: `0x${'ab'.repeat(32)}`, logs: [] } },
    'no receipt': { kind: 'result', result: null },
    silence: { kind: 'hold' },
    'a method it lacks': { kind: 'error', code: -32601, message: 'the method does not exist' },
  }
  let payments = 0
  for (const [what, fault] of Object.entries(faults)) {
    // Both tries of a broken connection.
    const lift = rpc.add(method, fault, 2)
    const settled = await settleOne()
    lift()
    t.match(settled, { status: 'settled', transaction: attempts[payments]!.transaction }, what)
    payments++
    t.equal(attempts.length, payments, 'signed once')
    t.equal(await earned(), 10_000n * BigInt(payments), 'paid once')
  }
  rpc.resetCounters()
  t.match(await settleOne(), { status: 'settled' })
  t.equal(rpc.calls(method), 0, 'what the node said that it lacks is not asked of it again')
})

t.test('a node without the method is asked the ordinary way', async (t) => {
  const fixture = await startSettler(t)
  fixture.rpc.add(method, { kind: 'error', code: -32601, message: 'Method not found' })
  await fixture.settler.start([])
  fixture.rpc.resetCounters()
  const { payment, identity } = await fixture.pay()
  t.match(await fixture.settler.settle(payment, fixture.terms, identity, async () => true), {
    status: 'settled',
  })
  t.equal(fixture.rpc.calls(method), 0)
})

t.test('its receipt is judged like any other: the token’s events decide', async (t) => {
  const { rpc, settleOne, earned } = await started(t)
  rpc.add(method, {
    kind: 'result',
    result: (real: unknown) => ({ ...(real as object), status: '0x1', logs: [] }),
  })
  t.match(await settleOne(), { status: 'settled' }, 'the events are looked for on chain')
  t.ok(rpc.calls('eth_getLogs') > 0)
  t.equal(await earned(), 10_000n)
})

t.test('with confirmations, a receipt that comes at once counts when its block is deep enough', async (t) => {
  const { chain, rpc, settleOne } = await started(t, { confirmations: 3 })
  const settling = settleOne()
  await rpc.whenCalled('eth_blockNumber', 2)
  let isDone = false
  void settling.then(() => (isDone = true))
  await rpc.whenCalled('eth_blockNumber', 3)
  t.notOk(isDone)
  await chain.mine(2)
  t.match(await settling, { status: 'settled' })
})

t.test('eighty at once hold thirty-two requests open, and share the looks for the others', async (t) => {
  // The daily gas limit of a store is not tested here.
  const maxGasPerStoreAndDay = 10n ** 18n
  const { chain, rpc, settleOne, earned } = await started(t, {
    receiptTimeoutMs: 20_000,
    maxGasPerStoreAndDay,
  })
  await chain.setAutomine(false)
  const settling = Array.from({ length: 80 }, settleOne)
  await rpc.whenCalled('eth_sendRawTransaction', 80)
  t.equal(rpc.calls(method), 32)
  const mining = setInterval(() => void chain.mine(), 200)
  const outcomes = await Promise.all(settling)
  clearInterval(mining)
  t.same(new Set(outcomes.map(({ status }) => status)), new Set(['settled']))
  t.equal(await earned(), 800_000n)
})

t.test('a node that answers some of them only is given fewer at once, until it answers again', async (t) => {
  const { rpc, settleOne, earned } = await started(t, { receiptTimeoutMs: 20_000 })
  const settleMany = async (whileHeld = async () => {}) => {
    const settling = Array.from({ length: 20 }, settleOne)
    await whileHeld()
    for (const { status } of await Promise.all(settling)) t.equal(status, 'settled')
  }
  const heldAtOnce = async () => {
    rpc.resetCounters()
    const release = rpc.add(method, { kind: 'hold' })
    let held = 0
    await settleMany(async () => {
      // Of both methods.
      await rpc.whenCalled('eth_sendRawTransaction', 20)
      held = rpc.calls(method)
      release()
    })
    return held
  }
  t.equal(await heldAtOnce(), 20)
  const lift = rpc.add(method, { kind: 'http-status', status: 429 })
  await settleMany()
  lift()
  t.equal(await heldAtOnce(), 1)
  for (let n = 0; n < 20; n++) t.match(await settleOne(), { status: 'settled' })
  t.equal(await heldAtOnce(), 20, 'as many as before')
  t.equal(await earned(), 1_000_000n)
})

t.test('on a chain that takes its time, each transaction is sent once, and the node waits', async (t) => {
  const { chain, rpc, settleOne } = await started(t)
  await chain.setAutomine(false)
  for (let n = 1; n <= 3; n++) {
    const settling = settleOne()
    await rpc.whenCalled(method, n)
    // More than what a node is given at least, told by four times what was usual.
    await new Promise((resolve) => setTimeout(resolve, 650))
    await chain.mine()
    t.match(await settling, { status: 'settled' })
  }
  t.equal(rpc.calls(method), 3)
  t.equal(rpc.calls('eth_sendRawTransaction'), 3, 'not once more the ordinary way')
  t.equal(rpc.calls('eth_getTransactionReceipt'), 0)
})

t.test('a call waits for its receipt no longer than it may, however long the looks are apart', async (t) => {
  const { chain, rpc, settleOne } = await started(t, { receiptTimeoutMs: 300, pollMs: 60_000 })
  await chain.setAutomine(false)
  const lift = rpc.add(method, { kind: 'hold' })
  t.match(await settleOne(), { status: 'pending' })
  lift()
})
