import t from 'tap'
import { encodeFunctionData, keccak256, parseTransaction } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import { isOnChain, recoverOne } from '../../lookUpOne.fixture.ts'
import { readAuthorization } from '../check/authorization.ts'
import type { Hex } from '../rpc/hex.ts'
import { recordOf, remember, seller, signPayment, startSettler, usdc } from '../settler.fixture.ts'
import { multicall3, multicall3Abi, payCall } from './payCall.ts'

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
  t.match(await recoverOne(settler, record), { status: 'pending' }, 'still in the pool')
  await chain.mine()
  t.match(await recoverOne(settler, record), { status: 'settled', transaction: attempts[0]!.transaction })
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
  let outcome = await recoverOne(settler, recordOf(identity, attempts[0]!))
  // A look lasts 100 ms here, which a busy machine can need for one answer; the recovery looks again, too.
  for (let looks = 1; outcome.status === 'pending' && looks < 20; looks++)
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
  t.match(await recoverOne(settler, recordOf(identity, attempts[0]!)), {
    status: 'settled',
    transaction: foreign,
  })
  t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
})

const batchOf = (payloads: readonly unknown[]) =>
  encodeFunctionData({
    abi: multicall3Abi,
    functionName: 'aggregate3',
    args: [
      payloads.map((payload) => ({
        target: usdc.address as Hex,
        allowFailure: false,
        callData: transferTo(payload),
      })),
    ],
  })

t.test(
  'payments that somebody else lands in one transaction while they settle are each their own',
  async (t) => {
    const { chain, settler, pay, terms } = await startSettler(t)
    const [observer] = await chain.rpc<[Hex]>('eth_accounts')
    const paying = [await pay(), await pay(), await pay()]
    let sending: Promise<Hex> | undefined
    const settled = await Promise.all(
      paying.map(({ payment, identity }) =>
        settler.settle(payment, terms, identity, async () => {
          const data = batchOf(paying.map(({ payment }) => payment.payload))
          sending ??= chain.send({ from: observer, to: multicall3, data })
          await sending
          return true
        }),
      ),
    )
    const transaction = await sending
    for (const outcome of settled)
      t.match(outcome, { status: 'settled', transaction, chargedAtomic: 10_000n, block: Number })
    t.equal(new Set(settled.map((outcome) => 'event' in outcome && outcome.event)).size, 3)
    t.equal(await chain.balanceUsdc(seller as Hex), 30_000n, 'each was paid once')
  },
)

t.test('payments that somebody else lands in one transaction are found after a crash as well', async (t) => {
  const { chain, settler, rpc, pay, terms } = await startSettler(t, { receiptTimeoutMs: 50 })
  rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
  const attempts: SettlementAttempt[] = []
  const paying = [await pay(), await pay(), await pay(), await pay()]
  for (const { payment, identity } of paying)
    t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'pending' })
  const [observer] = await chain.rpc<[Hex]>('eth_accounts')
  const data = batchOf(paying.slice(0, 3).map(({ payment }) => payment.payload))
  const foreign = await chain.send({ from: observer, to: multicall3, data })

  const records = paying.map(({ identity }, i) => recordOf(identity, attempts[i]!))
  const outcomes = await settler.recover(records)
  const same = { status: 'settled', transaction: foreign }
  t.match(
    outcomes,
    [same, same, same, { status: 'pending' }],
    'and the one that was not among them stays open',
  )
  t.equal(new Set(outcomes.slice(0, 3).map((outcome) => 'event' in outcome && outcome.event)).size, 3)
})

t.test('mined and reverted is not the end: topped up and sent by somebody else, it has landed', async (t) => {
  const { chain, settler, buyer, pay, terms } = await startSettler(t)
  const { payment, identity } = await pay()
  const attempts: SettlementAttempt[] = []
  await chain.setBlacklisted(buyer.address, true)
  const outcome = await settler.settle(payment, terms, identity, remember(attempts))
  t.match(outcome, { status: 'pending', reason: 'invalid_exact_evm_transaction_failed', message: /reverted/ })
  const record = recordOf(identity, attempts[0]!)
  t.match(await recoverOne(settler, record), {
    status: 'pending',
    reason: 'invalid_exact_evm_transaction_failed',
  })

  await chain.setBlacklisted(buyer.address, false)
  const [observer] = await chain.rpc<[Hex]>('eth_accounts')
  const foreign = await chain.send({ from: observer, to: usdc.address, data: transferTo(payment.payload) })
  t.match(await recoverOne(settler, record), { status: 'settled', transaction: foreign })
})

t.test(
  'mined and reverted is final once it expired unused, by the clock of the chain and with a margin',
  async (t) => {
    const { chain, settler, rpc, buyer, pay, terms } = await startSettler(t)
    const { payment, identity } = await pay()
    const attempts: SettlementAttempt[] = []
    await chain.setBlacklisted(buyer.address, true)
    await settler.settle(payment, terms, identity, remember(attempts))
    const record = recordOf(identity, attempts[0]!)
    await chain.advanceTime(62)
    t.match(await recoverOne(settler, record), { status: 'pending' })
    await chain.advanceTime(60)
    t.match(await recoverOne(settler, record), {
      status: 'failed_final',
      reason: 'invalid_exact_evm_transaction_failed',
    })
    t.equal(rpc.calls('eth_sendRawTransaction'), 1, 'and it was never sent again')
  },
)

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
    t.match(
      await recoverOne(settler, record),
      { status: 'pending' },
      'a reorganisation could still bring it in',
    )
    await chain.advanceTime(60)
    t.match(await recoverOne(settler, record), {
      status: 'failed_final',
      reason: 'invalid_exact_evm_payload_authorization_valid_before',
    })
    lift()
    t.equal(await chain.balanceUsdc(seller as Hex), 0n)

    const soon = String(Math.floor(Date.now() / 1000) + 400)
    const next = await pay({ validBefore: soon })
    const settled = await settler.settle(next.payment, terms, next.identity, remember(attempts))
    const { status } =
      settled.status === 'pending'
        ? await recoverOne(settler, recordOf(next.identity, attempts[1]!))
        : settled
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
  await next.start([attempts[1]!])
  const { payment, identity } = await pay()
  t.match(await next.settle(payment, terms, identity, remember(attempts)), { status: 'settled' })
  t.match(await recoverOne(next, recordOf(left[1]!.identity, attempts[1]!)), { status: 'settled' })
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
  const block = Number(await chain.blockNumber())
  const record = { ...recordOf(identity, attempts[0]!, attempts[0]!.transaction), block }
  t.equal(await isOnChain(settler, record), 'yes')
  await chain.reorg(1)
  t.equal(await isOnChain(settler, record), 'unknown', 'the chain is no longer than it was')
  await chain.mine()
  t.equal(await isOnChain(settler, record), 'no')
  t.match(await recoverOne(settler, record), { status: 'pending', lookAgainMs: 2_000 }, 'sent again')
  t.match(await recoverOne(settler, record), { status: 'settled', transaction: attempts[0]!.transaction })
  t.equal(await isOnChain(settler, record), 'yes')
})

t.test(
  'an account nonce is not filled that a payment of a former process has, which left the chain',
  async (t) => {
    const { chain, settler, another, pay, terms } = await startSettler(t)
    const attempts: SettlementAttempt[] = []
    const soon = { validBefore: String(Math.floor(Date.now() / 1000) + 400) }
    const former = [await pay(soon), await pay(soon)]
    for (const { payment, identity } of former)
      t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'settled' })
    await settler.close()
    const next = another({ strandedMs: 0, receiptTimeoutMs: 50 })
    await next.start([])
    // Of the two the store has the first as open; the second is nobody's.
    await next.followUp!(async () => [{ ...attempts[0]!, bytes: '', isReorged: true }])
    const waiting = await pay(soon)
    await chain.setAutomine(false)
    t.match(await next.settle(waiting.payment, terms, waiting.identity, remember(attempts)), {
      status: 'pending',
    })
    await chain.reorg(2)
    // So that the node notices.
    await chain.mine()
    const record = recordOf(waiting.identity, attempts[2]!)
    // The first look finds what is missing, the second one that it still is.
    for (let look = 0; look < 3; look++) await recoverOne(next, record)
    await chain.mine()
    const [first] = former
    const gone = recordOf(first!.identity, attempts[0]!, attempts[0]!.transaction)
    for (let look = 0; look < 3; look++) {
      await recoverOne(next, gone)
      await recoverOne(next, record)
      await chain.mine()
    }
    t.match(await recoverOne(next, gone), { status: 'settled', transaction: attempts[0]!.transaction })
    t.match(await recoverOne(next, record), { status: 'settled' }, 'and what waited behind it')
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
  t.match(await recoverOne(settler, recordOf(second.identity, attempts[1]!)), { status: 'failed_final' })
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

t.test('a store that never answers holds up nobody: its account nonce is filled', async (t) => {
  const { chain, settler, pay, terms } = await startSettler(t, { storeTimeoutMs: 200 })
  const frozen = await pay()
  const stuck = settler.settle(frozen.payment, terms, frozen.identity, () => new Promise(() => {}))
  const others = await Promise.all(Array.from({ length: 5 }, () => pay()))
  const attempts: SettlementAttempt[] = []
  const outcomes = await Promise.all(
    others.map(({ payment, identity }) => settler.settle(payment, terms, identity, remember(attempts))),
  )
  t.match(await stuck, { status: 'rejected', transient: true })
  for (const [i, { identity }] of others.entries()) {
    // Behind a gap that was filled late it may be open; then it is found.
    let outcome = outcomes[i]!
    while (outcome.status === 'pending') outcome = await recoverOne(settler, recordOf(identity, attempts[i]!))
    t.equal(outcome.status, 'settled')
  }
  t.equal(await chain.balanceUsdc(seller as Hex), 50_000n)
})

t.test('attempts that come at once are stored at once, and a no in the middle leaves no gap', async (t) => {
  const { chain, settler, pay, terms } = await startSettler(t)
  const payments = await Promise.all(Array.from({ length: 8 }, () => pay()))
  const all = Promise.withResolvers<void>()
  let storing = 0
  const outcomes = await Promise.all(
    payments.map(({ payment, identity }, i) =>
      settler.settle(payment, terms, identity, async () => {
        if (++storing === payments.length) all.resolve()
        await all.promise
        return i % 3 !== 1
      }),
    ),
  )
  t.same(
    outcomes.map(({ status }) => status),
    payments.map((_, i) => (i % 3 === 1 ? 'rejected' : 'settled')),
  )
  t.equal(await chain.balanceUsdc(seller as Hex), 50_000n)
})

t.test(
  'a base fee that rises after the signature sticks no nonce: the cap is signed, and less is paid',
  async (t) => {
    const maxFeePerGasWei = 100_000_000_000n
    const { chain, settler, pay, terms } = await startSettler(t, {
      maxFeePerGasWei,
      receiptTimeoutMs: 10_000,
    })
    const { payment, identity } = await pay()
    const attempts: SettlementAttempt[] = []
    // Twenty times what it was: what twice the base fee had bought is worth nothing now.
    const outcome = await settler.settle(payment, terms, identity, async (attempt) => {
      await chain.rpc('anvil_setNextBlockBaseFeePerGas', '0x4a817c800')
      return remember(attempts)(attempt)
    })
    t.match(outcome, { status: 'settled' })
    const signed = parseTransaction(attempts[0]!.bytes as Hex)
    t.equal(signed.maxFeePerGas, maxFeePerGasWei)
    const receipt = (await chain.rpc('eth_getTransactionReceipt', attempts[0]!.transaction)) as {
      effectiveGasPrice: Hex
    }
    t.equal(BigInt(receipt.effectiveGasPrice), 20_000_000_000n + 1_000_000n)
  },
)

t.test('an account with little ether signs what it can back, and says no before it runs dry', async (t) => {
  const key = `0x${'17'.repeat(32)}` as Hex
  const { chain, another, pay, terms } = await startSettler(t)
  const address = privateKeyToAccount(key).address
  await chain.fundEth(address, 2_000_000_000_000_000n)
  const settler = another({ privateKey: key })
  const attempts: SettlementAttempt[] = []
  const { payment, identity } = await pay()
  const verified = await settler.verify(payment, terms, identity, { storeId: 'store' })
  if (!verified.ok) return t.fail(verified.message)
  t.match(await settler.settle(payment, terms, identity, remember(attempts), verified.hold), {
    status: 'settled',
  })
  const { maxFeePerGas } = parseTransaction(attempts[0]!.bytes as Hex)
  t.ok(maxFeePerGas! < 2_000_000_000n + 1_000_001n)
  await chain.rpc('anvil_setBalance', address, '0x1')
  const dry = another({ privateKey: key })
  const next = await pay()
  t.match(await dry.verify(next.payment, terms, next.identity, { storeId: 'store' }), {
    ok: false,
    transient: true,
  })
})

t.test('a settler that has to be started refuses before, and has no places taken', async (t) => {
  const { another, pay, terms } = await startSettler(t)
  const settler = another({ needsStart: true })
  const { payment, identity } = await pay()
  const verify = () => settler.verify(payment, terms, identity, { storeId: 'store' })
  t.match(await verify(), { ok: false, transient: true, reason: 'settler_not_started' })
  t.match(await settler.settle(payment, terms, identity, async () => true), { status: 'rejected' })
  await settler.start([])
  t.match(await verify(), { ok: true })
})
