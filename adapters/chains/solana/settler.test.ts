import t from 'tap'
import { isOnChain } from '../../../test/helpers/chains/recoverOne.ts'
import {
  addressOf,
  changed,
  dollar2022,
  edit,
  network,
  usdc,
} from '../../../test/helpers/chains/solana/payments.ts'
import {
  bought,
  price,
  sold,
  staged,
  startingLamports,
  startingTokens,
} from '../../../test/helpers/chains/solana/stage.ts'
import { reasons } from './reasons.ts'

t.test('a payment with Token or Token-2022 moves exactly its price, once', async (t) => {
  const stage = await staged(t)
  for (const asset of [usdc, dollar2022]) {
    const paid = await stage.pay(asset)
    t.match(await stage.settler.verify(paid.payment, paid.terms, paid.identity, { storeId: 'store' }), {
      ok: true,
    })
    const { outcome, record } = await stage.settle(paid)
    t.match(outcome, { status: 'settled', transaction: record.attempt!.transaction })
    t.equal(sold(stage, asset), price)
    t.equal(bought(stage, asset), startingTokens - price)
    t.equal(record.attempt!.settler, `svm:${network}:${addressOf(stage.cast.feePayer)}`)
    t.match(record.attempt!.sequence, /^\d+$/, 'the slot of its verification')
    t.equal(await isOnChain(stage.settler, record), 'yes')
  }
  const spent = startingLamports - stage.chain.balanceSol(addressOf(stage.cast.feePayer))
  t.equal(spent, 2n * 10_001n, 'two signatures each, and the price of the compute units')
})

t.test('the most that a payment can cost the fee payer is what the caps say', async (t) => {
  const stage = await staged(t)
  const withFee = async (units: number, microLamports: bigint) => {
    const { payment, terms } = await stage.pay()
    const expensive = edit(payment, stage.cast.payer, ({ instructions }) => {
      const [limit, unitPrice] = [Buffer.alloc(5, 2), Buffer.alloc(9, 3)]
      limit.writeUInt32LE(units, 1)
      unitPrice.writeBigUInt64LE(microLamports, 1)
      instructions[0] = changed(instructions[0]!, { data: limit })
      instructions[1] = changed(instructions[1]!, { data: unitPrice })
    })
    return { payment: expensive, terms, checked: await stage.settler.check(expensive, terms) }
  }
  t.ok((await withFee(60_000, 100_000n)).checked.ok, 'as clients ask for that mean to land in a full block')
  const { payment, terms, checked } = await withFee(400_000, 200_000n)
  if (!checked.ok) return t.fail(checked.message)
  t.match((await stage.settle({ payment, terms, identity: checked.identity })).outcome, { status: 'settled' })
  t.equal(startingLamports - stage.chain.balanceSol(addressOf(stage.cast.feePayer)), 90_000n)
  t.match((await withFee(400_001, 1n)).checked, { ok: false, reason: reasons.computeLimitTooHigh })
  t.match((await withFee(20_000, 200_001n)).checked, { ok: false, reason: reasons.computePriceTooHigh })
  t.match((await withFee(1_400_000, 5_000_000n)).checked, { ok: false, reason: reasons.computeLimitTooHigh })
})

t.test('with commitment finalized a payment settles once its block is final', async (t) => {
  const stage = await staged(t, { commitment: 'finalized', confirmTimeoutMs: 30_000 })
  const paid = await stage.pay()
  t.match(await stage.settler.verify(paid.payment, paid.terms, paid.identity, { storeId: 'store' }), {
    ok: true,
  })
  const settling = stage.settle(paid)
  await stage.rpc.whenCalled('getSignatureStatuses', 2)
  t.equal(sold(stage), price, 'it is in a block')
  stage.chain.advanceSlots(32)
  t.match((await settling).outcome, { status: 'settled' })
})

t.test('a paid call takes two calls to the node beside statuses', async (t) => {
  const stage = await staged(t)
  const first = await stage.pay()
  await stage.settle(await stage.verify(first))
  stage.rpc.resetCounters()
  const paid = await stage.pay()
  await stage.settle(await stage.verify(paid))
  t.equal(stage.rpc.calls('simulateTransaction'), 1)
  t.equal(stage.rpc.calls('sendTransaction'), 1)
  t.equal(stage.rpc.calls() - stage.rpc.calls('getSignatureStatuses'), 2)
})

t.test('twenty payments at once all settle, and share their questions for statuses', async (t) => {
  const stage = await staged(t, { firstPollMs: 200 })
  const payments = await Promise.all(Array.from({ length: 20 }, () => stage.pay()))
  stage.rpc.resetCounters()
  const settled = await Promise.all(
    payments.map(async (paid) => {
      return stage.settle(await stage.verify(paid))
    }),
  )
  t.ok(settled.every(({ outcome }) => outcome.status === 'settled'))
  t.equal(sold(stage), 20n * price)
  t.ok(stage.rpc.calls('getSignatureStatuses') < 20, `${stage.rpc.calls('getSignatureStatuses')} questions`)
})

t.test(
  'a payment slower than anybody waits costs a bounded number of calls, and leaves no timer',
  async (t) => {
    const stage = await staged(t, {
      firstPollMs: 10,
      pollMs: 1_000,
      confirmTimeoutMs: 1_500,
      rebroadcastMs: 60_000,
    })
    const paid = await stage.pay()
    stage.chain.hold()
    stage.rpc.resetCounters()
    t.match((await stage.settle(paid)).outcome, { status: 'pending' })
    t.equal(stage.rpc.calls('sendTransaction'), 1)
    const polls = stage.rpc.calls('getSignatureStatuses')
    // 10, 20, 40 and so on to 1,280 ms: 8 polls. A pause of 10 ms each time would be 150.
    t.ok(polls < 20, `${polls} polls`)
    const left = process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
    await stage.settler.close()
    t.equal(
      left,
      process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length,
      'no timer is left',
    )
  },
)

t.test('with a WebSocket the transfer is heard of without asking', async (t) => {
  const stage = await staged(t, { firstPollMs: 60_000, confirmTimeoutMs: 30_000 })
  const settler = stage.another({ wsUrl: stage.chain.wsUrl })
  const paid = await stage.pay()
  await settler.verify(paid.payment, paid.terms, paid.identity, { storeId: 'store' })
  t.match((await stage.settle(paid, settler)).outcome, { status: 'settled' })
  t.equal(stage.rpc.calls('getSignatureStatuses'), 0)
})

t.test('a WebSocket that nobody answers changes nothing', async (t) => {
  const stage = await staged(t)
  const settler = stage.another({ wsUrl: 'ws://127.0.0.1:9/' })
  const paid = await stage.pay()
  t.match((await stage.settle(paid, settler)).outcome, { status: 'settled' })
})

t.test('nothing is sent before the attempt is stored, nor when it can not be', async (t) => {
  const stage = await staged(t)
  const paid = await stage.pay()
  const { payment, terms, identity } = paid
  await stage.settler.verify(payment, terms, identity, { storeId: 'store' })
  for (const store of [async () => false, () => Promise.reject(new Error('disk full'))]) {
    t.match(await stage.settler.settle(payment, terms, identity, store), {
      status: 'rejected',
      transient: true,
    })
  }
  const storing = Promise.withResolvers<boolean>()
  const requested = Promise.withResolvers<void>()
  const settling = stage.settler.settle(payment, terms, identity, () => {
    requested.resolve()
    return storing.promise
  })
  await requested.promise
  t.equal(stage.rpc.calls('sendTransaction'), 0)
  t.equal(sold(stage), 0n)
  storing.resolve(true)
  t.match(await settling, { status: 'settled' })
  t.equal(sold(stage), price)
})

t.test('before the attempt is stored, no node has seen bytes that could land', async (t) => {
  const stage = await staged(t)
  const sent: { method: string; params: readonly unknown[] }[] = []
  stage.rpc.onCall((method, params) => sent.push({ method, params }))
  const paid = await stage.pay()
  await stage.settler.verify(paid.payment, paid.terms, paid.identity, { storeId: 'store' })
  const signedBytes = (method: string) =>
    sent
      .filter((call) => call.method === method)
      .map(({ params }) => Buffer.from(params[0] as string, 'base64').subarray(1, 65))
  t.same(
    signedBytes('simulateTransaction'),
    [Buffer.alloc(64)],
    'the fee payer has not signed what is simulated',
  )
  await stage.settle(paid)
  t.notSame(signedBytes('sendTransaction'), [Buffer.alloc(64)])
})

t.test('an answer to the broadcast that is lost does not lose the transfer', async (t) => {
  const stage = await staged(t)
  const paid = await stage.pay()
  stage.rpc.add('sendTransaction', { kind: 'drop-answer' }, 1)
  t.match((await stage.settle(paid)).outcome, { status: 'settled' })
  t.equal(sold(stage), price)
})

t.test('while the outcome is awaited the same bytes are sent again', async (t) => {
  const stage = await staged(t, { confirmTimeoutMs: 30_000, rebroadcastMs: 20 })
  const paid = await stage.pay()
  stage.chain.dropNext(3)
  t.match((await stage.settle(paid)).outcome, { status: 'settled' })
  t.ok(stage.rpc.calls('sendTransaction') > 3)
  t.equal(sold(stage), price)
})

t.test('the same payment settled twice moves money once, and verify says that it is on chain', async (t) => {
  const stage = await staged(t)
  const paid = await stage.pay()
  const both = await Promise.all([stage.settle(paid), stage.settle(paid, stage.another())])
  t.ok(both.every(({ outcome }) => outcome.status === 'settled'))
  t.equal(both[0].record.attempt!.transaction, both[1].record.attempt!.transaction)
  t.equal(sold(stage), price)
  const again = await stage.settler.verify(paid.payment, paid.terms, paid.identity, { storeId: 'store' })
  t.match(again, { ok: false, reason: reasons.duplicate })
})

t.test('settle refuses an identity that is not of the payment', async (t) => {
  const stage = await staged(t)
  const [one, two] = [await stage.pay(), await stage.pay()]
  const { outcome } = await stage.settle({ ...one, identity: { ...two.identity } })
  t.match(outcome, { status: 'rejected' })
  t.match((await stage.settle({ ...one, identity: { ...one.identity } })).outcome, { status: 'settled' })
  t.equal(sold(stage), price)
})
