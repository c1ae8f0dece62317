import { randomBytes } from 'node:crypto'
import { base58 } from '@scure/base'
import { Keypair } from '@solana/web3.js'
import t from 'tap'
import { tokenProgramAddress } from '../../../../core/solana/addresses.ts'
import { isOnChain, recoverOne } from '../../../../test/helpers/chains/recoverOne.ts'
import { addressOf, realPayment, termsOf, usdc } from '../../../../test/helpers/chains/solana/payments.ts'
import { type Prepared, price, sold, staged } from '../../../../test/helpers/chains/solana/stage.ts'
import { sendSolana, transferInstruction } from '../../../../test/helpers/localnet/sendToken.ts'
import { reasons } from '../reasons.ts'

t.test(
  'when nothing answers after the broadcast it is pending, and recover finds it settled: one transfer',
  async (t) => {
    const stage = await staged(t)
    const paid = await stage.pay()
    await stage.settler.verify(paid.payment, paid.terms, paid.identity, { storeId: 'store' })
    stage.rpc.add('getSignatureStatuses', { kind: 'refuse' })
    stage.rpc.add('sendTransaction', { kind: 'drop-answer' })
    const { outcome, record } = await stage.settle(paid)
    t.match(outcome, { status: 'pending', transaction: record.attempt!.transaction, reason: reasons.pending })
    t.match(await recoverOne(stage.settler, record), { status: 'pending' }, 'still nobody answers')
    stage.rpc.clear()
    const heir = stage.another()
    t.match(await recoverOne(heir, record), { status: 'settled', transaction: record.attempt!.transaction })
    t.match(await recoverOne(heir, record), { status: 'settled' }, 'and again')
    t.equal(sold(stage), price)
  },
)

t.test('a transaction that was lost on the way is sent again by recover, the same bytes', async (t) => {
  const stage = await staged(t)
  const paid = await stage.pay()
  stage.chain.dropNext()
  const { outcome, record } = await stage.settle(paid)
  t.match(outcome, { status: 'pending' })
  t.match(await recoverOne(stage.another(), record), { status: 'pending' }, 'not found, so it is sent again')
  t.match(await recoverOne(stage.another(), record), {
    status: 'settled',
    transaction: record.attempt!.transaction,
  })
  t.equal(sold(stage), price)
})

t.test('a payment that never lands fails for good only when its block hash has expired', async (t) => {
  const stage = await staged(t)
  const paid = await stage.pay()
  // Settling sends it once, and so does the first recovery; later ones find the block hash expired.
  stage.chain.dropNext(2)
  const { record } = await stage.settle(paid)
  stage.ahead = 600_000
  t.match(await recoverOne(stage.settler, record), { status: 'pending' }, 'late by the clock alone')
  stage.ahead = 0
  stage.chain.advanceSlots(200)
  t.match(
    await recoverOne(stage.settler, record),
    { status: 'pending' },
    'expired, but too early by the clock',
  )
  stage.ahead = 90_001
  const gone = await recoverOne(stage.settler, record)
  t.match(gone, { status: 'failed_final', reason: reasons.blockhashExpired })
  t.equal(sold(stage), 0n)
  t.equal(await isOnChain(stage.settler, record), 'no')
  t.match(await recoverOne(stage.settler, record), { status: 'failed_final' }, 'and it stays so')
  t.equal(sold(stage), 0n)
})

t.test(
  '"not found" means nothing to a node whose history is too short, that is behind, or of another cluster',
  async (t) => {
    const stage = await staged(t)
    const paid = await stage.pay()
    stage.chain.dropNext()
    const { record } = await stage.settle(paid)
    stage.chain.advanceSlots(200)
    stage.ahead = 91_000
    const pending = async (what: string) => {
      t.match(await recoverOne(stage.another(), record), { status: 'pending' }, what)
      stage.rpc.clear()
    }
    stage.rpc.add('getFirstAvailableBlock', { kind: 'result', result: stage.chain.slot() })
    stage.rpc.add('getBlockTime', { kind: 'result', result: Math.floor(Date.now() / 1000) + 60 })
    await pending('history too short')
    stage.rpc.add('getFirstAvailableBlock', { kind: 'result', result: 1 })
    stage.rpc.add('getBlockTime', { kind: 'result', result: null })
    await pending('history of unknown length')
    stage.rpc.add('getSignatureStatuses', { kind: 'result', result: { context: { slot: 1 }, value: [null] } })
    await pending('the status is older than the expiry')
    stage.rpc.add('isBlockhashValid', { kind: 'http-status', status: 429 })
    await pending('no answer to whether it expired')
    stage.rpc.add('getGenesisHash', {
      kind: 'result',
      result: '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d',
    })
    await pending('another cluster')
    stage.rpc.add('getFirstAvailableBlock', { kind: 'result', result: 1 })
    stage.rpc.add('getBlockTime', { kind: 'result', result: 1_700_000_000 })
    t.match(await recoverOne(stage.another(), record), { status: 'failed_final' }, 'a node that knows')
  },
)

t.test('a look at thirty open payments asks the node once, and sends each again', async (t) => {
  const stage = await staged(t, { confirmTimeoutMs: 1, rebroadcastMs: 60_000 })
  const payments = await Promise.all(Array.from({ length: 30 }, () => stage.pay()))
  stage.chain.hold()
  const open = await Promise.all(payments.map(async (paid) => (await stage.settle(paid)).record))
  await stage.rpc.whenCalled('sendTransaction', 30)
  // A spoiled row must not affect the others.
  const spoiled = { ...open[0]!, attempt: { ...open[0]!.attempt!, transaction: '0Ol' } }
  const look = async () => {
    stage.rpc.resetCounters()
    const outcomes = await stage.settler.recover([spoiled, ...open])
    t.match(outcomes[0], { status: 'pending' })
    return {
      outcomes: new Set(outcomes.slice(1).map(({ status }) => status)),
      calls: stage.rpc.calls(),
      sent: stage.rpc.calls('sendTransaction'),
    }
  }
  t.same(await look(), { outcomes: new Set(['pending']), calls: 31, sent: 30 })
  stage.chain.release()
  t.same(await look(), { outcomes: new Set(['settled']), calls: 1, sent: 0 })
  t.equal(sold(stage), 30n * price)
  stage.rpc.resetCounters()
  const stillThere = await stage.settler.stillOnChain(open)
  t.same([...new Set(stillThere), stage.rpc.calls()], ['yes', 1], 'and so is whether they are still there')
})

t.test('300 open payments are asked about by two questions', async (t) => {
  const stage = await staged(t)
  const { record } = await stage.settle(await stage.pay())
  const random = () => base58.encode(randomBytes(64))
  const others = Array.from({ length: 299 }, () => ({
    ...record,
    attempt: { ...record.attempt!, transaction: random() },
  }))
  stage.rpc.resetCounters()
  const outcomes = await stage.settler.recover([...others, record])
  t.match(outcomes.at(-1), { status: 'settled', event: '0', block: Number, chargedAtomic: price })
  t.equal(stage.rpc.calls('getSignatureStatuses'), 2)
})

t.test('a transfer that left the chain is sent again while its block hash lasts', async (t) => {
  const stage = await staged(t)
  stage.chain.advanceSlots(1)
  const { record } = await stage.settle(await stage.pay())
  stage.chain.rollBack(1)
  t.equal(sold(stage), 0n)
  t.equal(await isOnChain(stage.settler, record), 'unknown')
  t.equal(await isOnChain(stage.settler, record), 'yes')
  t.equal(sold(stage), price)
})

t.test('a transfer that left the chain again is missed, and is sent again by recover', async (t) => {
  const stage = await staged(t)
  // A block of its own, so that only the payment is undone.
  stage.chain.advanceSlots(1)
  const { record } = await stage.settle(await stage.pay())
  stage.chain.rollBack(1)
  const lift = stage.rpc.add('sendTransaction', { kind: 'refuse' })
  t.equal(await isOnChain(stage.settler, record), 'unknown', 'it may come back')
  lift()
  t.match(await recoverOne(stage.settler, record), { status: 'pending' })
  t.match(await recoverOne(stage.settler, record), { status: 'settled' })
  t.equal(await isOnChain(stage.settler, record), 'yes')
  stage.chain.rollBack(1)
  stage.chain.advanceSlots(200)
  stage.ahead = 91_000
  t.equal(await isOnChain(stage.settler, record), 'no')
})

t.test(
  'money moved away after verify: the failure is final once its block is, and the payer’s budget runs out',
  async (t) => {
    const stage = await staged(t, { failureBudget: { failures: 2, windowMs: 60_000 } })
    const payer = Keypair.generate()
    stage.chain.mintUsdc(addressOf(payer), 2n * price)
    const terms = termsOf(stage.cast, usdc)
    const pay = async () => {
      const payment = await realPayment(payer, terms, stage.chain.rpcUrl)
      const checked = await stage.settler.check(payment, terms)
      return { payment, terms, checked }
    }
    const payments = await Promise.all([pay(), pay(), pay()])
    const [first, second, third] = payments.map(({ payment, terms, checked }) => {
      if (!checked.ok) throw new Error(checked.message)
      return { payment, terms, identity: checked.identity }
    }) as [Prepared, Prepared, Prepared]
    const ready = [await stage.verify(first), await stage.verify(second)]
    t.match(await stage.settler.verify(third.payment, terms, third.identity, { storeId: 'store' }), {
      ok: false,
      transient: true,
      reason: 'too_many_payments_in_flight',
    })
    const away = { from: addressOf(payer), to: addressOf(stage.cast.payer), amountAtomic: 2n * price }
    const moving = transferInstruction(stage.chain, tokenProgramAddress.token, away)
    await sendSolana(stage.chain, [payer], [moving])
    const settled = []
    for (const paid of ready) settled.push(await stage.settle(paid))
    const failed = { status: 'pending', reason: reasons.transactionFailed }
    t.match(
      settled.map(({ outcome }) => outcome),
      [failed, failed],
    )
    const { record } = settled[1]!
    t.match(await recoverOne(stage.settler, record), failed, 'another fork could still carry it')
    stage.chain.advanceSlots(32)
    t.match(await recoverOne(stage.settler, record), { ...failed, status: 'failed_final' })
    t.equal(sold(stage), 0n)
    t.match((await pay()).checked, { ok: false, reason: 'payer_failure_budget_exhausted' })
    stage.ahead = 61_000
    t.match((await pay()).checked, { ok: true })
  },
)

t.test('long after verify the node looks again, and a payment that would fail costs no fee', async (t) => {
  const stage = await staged(t)
  const payer = Keypair.generate()
  stage.chain.mintUsdc(addressOf(payer), 2n * price)
  const terms = termsOf(stage.cast, usdc)
  const ready: Prepared[] = []
  for (let i = 0; i < 2; i++) {
    const payment = await realPayment(payer, terms, stage.chain.rpcUrl)
    const checked = await stage.settler.check(payment, terms)
    if (!checked.ok) throw new Error(checked.message)
    ready.push(await stage.verify({ payment, terms, identity: checked.identity }))
  }
  t.match((await stage.settle(ready[0]!)).outcome, { status: 'settled' })
  const away = { from: addressOf(payer), to: addressOf(stage.cast.payer), amountAtomic: price }
  await sendSolana(stage.chain, [payer], [transferInstruction(stage.chain, tokenProgramAddress.token, away)])
  const before = stage.chain.balanceSol(addressOf(stage.cast.feePayer))
  stage.ahead = 10_000
  const { outcome, record } = await stage.settle(ready[1]!)
  t.match(outcome, { status: 'pending' }, 'a refusal by a node is no proof')
  t.equal(stage.chain.balanceSol(addressOf(stage.cast.feePayer)), before)
  stage.chain.advanceSlots(200)
  stage.ahead = 100_000
  t.match(await recoverOne(stage.settler, record), { status: 'failed_final' })
})

for (const [what, slot] of [
  ['leaves out the slot', undefined],
  ['says a slot that is none', 'soon'],
] as const) {
  t.test(`a payment that was verified by a node that ${what} comes to an end all the same`, async (t) => {
    const stage = await staged(t)
    const spoil = (real: { context: object }) => ({ ...real, context: { ...real.context, slot } })
    stage.rpc.add('simulateTransaction', { kind: 'result', result: spoil } as never)
    const paid = await stage.verify(await stage.pay())
    stage.chain.dropNext(9)
    const { record } = await stage.settle(paid)
    t.equal(record.attempt!.sequence, null)
    stage.chain.advanceSlots(200)
    stage.ahead = 90_001
    t.match(await recoverOne(stage.settler, record), {
      status: 'failed_final',
      reason: reasons.blockhashExpired,
    })
    t.equal(sold(stage), 0n)
  })
}
