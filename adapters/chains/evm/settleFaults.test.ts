import t from 'tap'
import { keccak256, parseTransaction } from 'viem'
import type { SettlementAttempt } from '../../../core/domain/payment.ts'
import { readAuthorization } from './authorization.ts'
import type { Hex } from './hex.ts'
import { payCall } from './payCall.ts'
import { recordOf, remember, seller, signPayment, startSettler, usdc } from './settler.fixture.ts'

const transferTo = (payload: unknown): Hex => {
  const read = readAuthorization(payload)
  if (!read.ok) throw new Error(read.message)
  return payCall(usdc.address, read.authorization, undefined).data as Hex
}

t.test('a broadcast whose answer is lost makes no second transaction', async (t) => {
  const { chain, settler, rpc, pay, terms } = await startSettler(t)
  const { payment, identity } = await pay()
  // Both tries of the first broadcast: the connection is tried once more before the node counts as away.
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
  t.match(await settler.recover(record), { status: 'pending' }, 'still in the pool')
  await chain.mine()
  t.match(await settler.recover(record), { status: 'settled', transaction: attempts[0]!.transaction })
  t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
})

t.test('a transaction that the pool lost is sent again as it was', async (t) => {
  const { chain, settler, pay, terms } = await startSettler(t, { receiptTimeoutMs: 100 })
  const { payment, identity } = await pay()
  await chain.setAutomine(false)
  const attempts: SettlementAttempt[] = []
  await settler.settle(payment, terms, identity, remember(attempts))
  await chain.dropTransaction(attempts[0]!.transaction as Hex)
  await chain.setAutomine(true)
  let outcome = await settler.recover(recordOf(identity, attempts[0]!))
  // A look lasts 100 ms here, which a busy machine can need for one answer; the reconciler looks again, too.
  for (let looks = 1; outcome.status === 'pending' && looks < 20; looks++)
    outcome = await settler.recover(recordOf(identity, attempts[0]!))
  t.match(outcome, { status: 'settled', transaction: attempts[0]!.transaction })
  t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
})

t.test('an observer who broadcasts the authorisation first changes nothing', async (t) => {
  const { chain, settler, pay, terms } = await startSettler(t)
  const { payment, identity } = await pay()
  const [observer] = await chain.rpc<[Hex]>('eth_accounts')
  let foreign: Hex | undefined
  const outcome = await settler.settle(payment, terms, identity, async () => {
    foreign = await chain.send({
      from: observer,
      to: usdc.address,
      data: transferTo(payment.payload),
    })
    return true
  })
  t.match(outcome, { status: 'settled', transaction: foreign! })
  t.equal(await chain.balanceUsdc(seller as Hex), 10_000n, 'one transfer')
})

t.test('an observer is recognised after a crash as well, when our bytes never left', async (t) => {
  const { chain, settler, rpc, pay, terms } = await startSettler(t, { receiptTimeoutMs: 50 })
  const { payment, identity } = await pay()
  rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
  const attempts: SettlementAttempt[] = []
  t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'pending' })
  const [observer] = await chain.rpc<[Hex]>('eth_accounts')
  const data = transferTo(payment.payload)
  const foreign = await chain.send({ from: observer, to: usdc.address, data })
  rpc.clear()
  t.match(await settler.recover(recordOf(identity, attempts[0]!)), {
    status: 'settled',
    transaction: foreign,
  })
  t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
})

t.test('a token that does not revert on a used nonce is not believed', async (t) => {
  const { chain, settler, buyer, pay, terms } = await startSettler(t)
  await chain.useToken('silent')
  const { payment, identity } = await pay()
  // The buyer has used the same nonce to pay somebody else.
  const other = { ...terms, payTo: '0x00000000000000000000000000000000000000aa' }
  const elsewhere = await signPayment(buyer, other, { nonce: identity.nonce })
  const [observer] = await chain.rpc<[Hex]>('eth_accounts')
  await chain.send({
    from: observer,
    to: usdc.address,
    data: transferTo(elsewhere.payload),
  })

  const attempts: SettlementAttempt[] = []
  const outcome = await settler.settle(payment, terms, identity, remember(attempts))
  t.match(outcome, { status: 'failed_final', reason: 'invalid_exact_evm_nonce_already_used' })
  const receipt = await chain.rpc<{ status: string }>('eth_getTransactionReceipt', attempts[0]!.transaction)
  t.equal(receipt.status, '0x1', 'the transaction itself says that all is well')
  t.equal(await chain.balanceUsdc(seller as Hex), 0n)
})

t.test(
  'an authorisation that expired unused is final, its account nonce is filled, and the next payment lands',
  async (t) => {
    const { chain, settler, rpc, pay, terms } = await startSettler(t, { receiptTimeoutMs: 50 })
    const { payment, identity } = await pay()
    const lift = rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
    const attempts: SettlementAttempt[] = []
    t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'pending' })
    const record = recordOf(identity, attempts[0]!)
    await chain.advanceTime(62)
    t.match(await settler.recover(record), { status: 'pending' }, 'a reorganisation could still bring it in')
    await chain.advanceTime(60)
    t.match(await settler.recover(record), {
      status: 'failed_final',
      reason: 'invalid_exact_evm_payload_authorization_valid_before',
    })
    lift()
    t.equal(await chain.balanceUsdc(seller as Hex), 0n)

    const soon = String(Math.floor(Date.now() / 1000) + 400)
    const next = await pay({ validBefore: soon })
    const settled = await settler.settle(next.payment, terms, next.identity, remember(attempts))
    const { status } =
      settled.status === 'pending' ? await settler.recover(recordOf(next.identity, attempts[1]!)) : settled
    t.equal(status, 'settled')
    t.equal(Number(attempts[1]!.sequence), Number(attempts[0]!.sequence) + 1)
    t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
  },
)

t.test('a new process sends what the old one left before it signs anything', async (t) => {
  const { chain, settler, rpc, another, pay, terms } = await startSettler(t, { receiptTimeoutMs: 50 })
  rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
  const attempts: SettlementAttempt[] = []
  const left = [await pay(), await pay()]
  for (const { payment, identity } of left) {
    t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'pending' })
  }
  await settler.close()
  rpc.clear()

  const next = another()
  // The first of the two was resolved by somebody else, so that its account nonce is a gap.
  await next.start([recordOf(left[1]!.identity, attempts[1]!)])
  const { payment, identity } = await pay()
  t.match(await next.settle(payment, terms, identity, remember(attempts)), { status: 'settled' })
  t.match(await next.recover(recordOf(left[1]!.identity, attempts[1]!)), { status: 'settled' })
  t.same(
    attempts.map(({ sequence }) => Number(sequence) - Number(attempts[0]!.sequence)),
    [0, 1, 2],
  )
  t.equal(await chain.balanceUsdc(seller as Hex), 20_000n)
})

t.test('a transfer that left the chain again is noticed, and the same bytes bring it back', async (t) => {
  const { chain, settler, pay, terms } = await startSettler(t)
  const { payment, identity } = await pay()
  const attempts: SettlementAttempt[] = []
  t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'settled' })
  const record = recordOf(identity, attempts[0]!, attempts[0]!.transaction)
  t.equal(await settler.stillOnChain(record), 'yes')
  await chain.reorg(1)
  t.equal(await settler.stillOnChain(record), 'no')
  t.match(await settler.recover(record), { status: 'settled', transaction: attempts[0]!.transaction })
  t.equal(await settler.stillOnChain(record), 'yes')
})

t.test('nobody is told that a transfer is gone while the nodes can not be asked', async (t) => {
  const { settler, rpc, pay, terms } = await startSettler(t, { rpcTimeoutMs: 200 })
  const { payment, identity } = await pay()
  const attempts: SettlementAttempt[] = []
  await settler.settle(payment, terms, identity, remember(attempts))
  const record = recordOf(identity, attempts[0]!, attempts[0]!.transaction)
  for (const fault of [{ kind: 'refuse' }, { kind: 'http-status', status: 429 }, { kind: 'hold' }] as const) {
    const lift = rpc.add('*', fault)
    t.equal(await settler.stillOnChain(record), 'unknown', fault.kind)
    t.match(await settler.recover(record), { status: 'pending' }, fault.kind)
    lift()
  }
})

t.test('with the nodes away nothing is signed, and the refusal can be tried again', async (t) => {
  const { settler, rpc, pay, terms } = await startSettler(t, { rpcTimeoutMs: 200 })
  const { payment, identity } = await pay()
  rpc.add('*', { kind: 'http-status', status: 503 })
  const attempts: SettlementAttempt[] = []
  t.match(await settler.verify(payment, terms, identity), { ok: false, transient: true })
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
  t.match(await settler.verify(payment, terms, identity), { ok: false, transient: true })
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
  t.match(await settler.verify(payment, terms, identity), { ok: true })
  t.match(await settler.settle(payment, terms, identity, async () => true), { status: 'settled' })
})

t.test('an account nonce that somebody else used does not make a second transfer', async (t) => {
  const { chain, settler, pay, terms } = await startSettler(t, { receiptTimeoutMs: 100 })
  const first = await pay()
  const attempts: SettlementAttempt[] = []
  t.match(await settler.settle(first.payment, terms, first.identity, remember(attempts)), {
    status: 'settled',
  })
  const address = attempts[0]!.settler.split(':').at(-1)!
  await chain.send({ from: address, to: address })

  const second = await pay()
  t.match(await settler.settle(second.payment, terms, second.identity, remember(attempts)), {
    status: 'pending',
  })
  const third = await pay()
  t.match(await settler.settle(third.payment, terms, third.identity, remember(attempts)), {
    status: 'settled',
  })
  t.equal(await chain.balanceUsdc(seller as Hex), 20_000n)
  await chain.advanceTime(200)
  t.match(await settler.recover(recordOf(second.identity, attempts[1]!)), { status: 'failed_final' })
})

t.test('fees above the cap and an empty account stop settlement before anything is signed', async (t) => {
  const { chain, rpc, another, pay, terms } = await startSettler(t)
  const attempts: SettlementAttempt[] = []
  const { payment, identity } = await pay()
  const capped = another({ maxFeePerGasWei: 10n })
  t.match(await capped.settle(payment, terms, identity, remember(attempts)), {
    status: 'rejected',
    transient: true,
  })
  t.match(await capped.diagnose(), [/above maxFeePerGas/])
  const empty = another({ privateKey: `0x${'42'.repeat(32)}` })
  t.match(await empty.settle(payment, terms, identity, remember(attempts)), {
    status: 'rejected',
    transient: true,
  })
  t.match(await empty.diagnose(), [/send it some ether/])
  t.equal(attempts.length, 0)
  t.equal(rpc.calls('eth_sendRawTransaction'), 0)
  await chain.mine()
})

t.test('what is stored is what is broadcast: hash, nonce, fees under the cap', async (t) => {
  const { settler, pay, terms } = await startSettler(t, { maxFeePerGasWei: 3_000_000_000n, maxGas: 150_000 })
  const { payment, identity } = await pay()
  const attempts: SettlementAttempt[] = []
  await settler.settle(payment, terms, identity, remember(attempts))
  const [{ bytes, transaction, sequence }] = attempts as [SettlementAttempt]
  t.equal(keccak256(bytes as Hex), transaction)
  const parsed = parseTransaction(bytes as Hex)
  t.match(parsed, { type: 'eip1559', chainId: 84532, gas: 150_000n, to: usdc.address.toLowerCase() })
  t.equal(String(parsed.nonce ?? 0), sequence)
  t.ok((parsed.maxFeePerGas ?? 0n) <= 3_000_000_000n)
})
