import { randomBytes } from 'node:crypto'
import { base58 } from '@scure/base'
import { Keypair } from '@solana/web3.js'
import t from 'tap'
import { tokenProgramAddress } from '../../../core/solana/programs.ts'
import { sendSolana, transferInstruction } from '../../../localnet/sendToken.fixture.ts'
import { isOnChain, recoverOne } from '../lookUpOne.fixture.ts'
import {
  addressOf,
  changed,
  dollar2022,
  edit,
  network,
  realPayment,
  termsOf,
  usdc,
} from './payments.fixture.ts'
import { reasons } from './reasons.ts'
import {
  type Prepared,
  price,
  type Stage,
  setStage,
  startingLamports,
  startingTokens,
} from './stage.fixture.ts'

async function staged(
  t: { teardown(close: () => Promise<void>): void },
  options: Parameters<typeof setStage>[0] = {},
): Promise<Stage> {
  const stage = await setStage(options)
  t.teardown(stage.close)
  return stage
}

const sold = ({ chain, cast }: Stage, asset = usdc) =>
  chain.balanceToken(asset.address, addressOf(cast.seller))
const bought = ({ chain, cast }: Stage, asset = usdc) =>
  chain.balanceToken(asset.address, addressOf(cast.payer))

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
    const dear = edit(payment, stage.cast.payer, ({ instructions }) => {
      const [limit, unitPrice] = [Buffer.alloc(5, 2), Buffer.alloc(9, 3)]
      limit.writeUInt32LE(units, 1)
      unitPrice.writeBigUInt64LE(microLamports, 1)
      instructions[0] = changed(instructions[0]!, { data: limit })
      instructions[1] = changed(instructions[1]!, { data: unitPrice })
    })
    return { payment: dear, terms, checked: await stage.settler.check(dear, terms) }
  }
  const { payment, terms, checked } = await withFee(200_000, 50_000n)
  if (!checked.ok) return t.fail(checked.message)
  t.match((await stage.settle({ payment, terms, identity: checked.identity })).outcome, { status: 'settled' })
  t.equal(startingLamports - stage.chain.balanceSol(addressOf(stage.cast.feePayer)), 20_000n)
  t.match((await withFee(1_400_000, 5_000_000n)).checked, { ok: false, reason: reasons.computeLimitTooHigh })
  t.match((await withFee(20_000, 5_000_000n)).checked, { ok: false, reason: reasons.computePriceTooHigh })
})

t.test('payments of 3 to 6 instructions settle on chain; with fewer or more nothing is taken', async (t) => {
  const stage = await staged(t)
  for (let count = 2; count <= 8; count++) {
    const { payment, terms } = await stage.pay()
    const changed = edit(payment, stage.cast.payer, (draft) => {
      const memo = draft.instructions[3]!
      if (count > 2) draft.instructions.splice(3, 1, ...Array(count - 3).fill(memo))
      else draft.instructions.splice(0, 2)
    })
    const checked = await stage.settler.check(changed, terms)
    if (count < 3 || count > 6) {
      t.match(checked, { ok: false, reason: reasons.instructionsLength }, `${count} instructions`)
      continue
    }
    if (!checked.ok) return t.fail(checked.message)
    const { identity } = checked
    t.match(
      await stage.settler.verify(changed, terms, identity, { storeId: 'store' }),
      { ok: true },
      `${count} instructions`,
    )
    t.match((await stage.settle({ payment: changed, terms, identity })).outcome, { status: 'settled' })
  }
  t.equal(sold(stage), 4n * price)
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
    const looks = stage.rpc.calls('getSignatureStatuses')
    t.ok(looks <= 9, `${looks} looks: 10, 20, 40 and so on to 1,280 ms, then one a second`)
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
  const asked = Promise.withResolvers<void>()
  const settling = stage.settler.settle(payment, terms, identity, () => {
    asked.resolve()
    return storing.promise
  })
  await asked.promise
  t.equal(stage.rpc.calls('sendTransaction'), 0)
  t.equal(sold(stage), 0n)
  storing.resolve(true)
  t.match(await settling, { status: 'settled' })
  t.equal(sold(stage), price)
})

t.test('before the attempt is stored, no node has seen bytes that could land', async (t) => {
  const stage = await staged(t)
  const sent: { method: string; params: [string] }[] = []
  const { fetch } = globalThis
  t.teardown(() => {
    globalThis.fetch = fetch
  })
  globalThis.fetch = (url, init) => {
    if (String(url).startsWith(stage.rpc.url)) sent.push(JSON.parse(String(init?.body)))
    return fetch(url, init)
  }
  const paid = await stage.pay()
  await stage.settler.verify(paid.payment, paid.terms, paid.identity, { storeId: 'store' })
  const signedBytes = (method: string) =>
    sent
      .filter((call) => call.method === method)
      .map(({ params }) => Buffer.from(params[0], 'base64').subarray(1, 65))
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
  // A row that somebody spoiled spoils itself only.
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

t.test('while the outcome is awaited the same bytes are sent again', async (t) => {
  const stage = await staged(t, { confirmTimeoutMs: 30_000, rebroadcastMs: 20 })
  const paid = await stage.pay()
  stage.chain.dropNext(3)
  t.match((await stage.settle(paid)).outcome, { status: 'settled' })
  t.ok(stage.rpc.calls('sendTransaction') > 3)
  t.equal(sold(stage), price)
})

t.test('a transfer that left the chain again is missed, and is sent again by recover', async (t) => {
  const stage = await staged(t)
  // A block of its own, so that only the payment is undone.
  stage.chain.advanceSlots(1)
  const { record } = await stage.settle(await stage.pay())
  stage.chain.rollBack(1)
  t.equal(await isOnChain(stage.settler, record), 'unknown', 'it may come back')
  t.match(await recoverOne(stage.settler, record), { status: 'pending' })
  t.match(await recoverOne(stage.settler, record), { status: 'settled' })
  t.equal(await isOnChain(stage.settler, record), 'yes')
  stage.chain.rollBack(1)
  stage.chain.advanceSlots(200)
  stage.ahead = 91_000
  t.equal(await isOnChain(stage.settler, record), 'no')
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

t.test('what the chain would refuse is refused before anything is sent, with a reason', async (t) => {
  const stage = await staged(t)
  const verify = async ({ payment, terms, identity } = {} as Awaited<ReturnType<Stage['pay']>>) =>
    stage.settler.verify(payment, terms, identity, { storeId: 'store' })
  const pay = async (cast: typeof stage.cast) => {
    const terms = termsOf(cast, usdc)
    const payment = await realPayment(cast.payer, terms, stage.chain.rpcUrl)
    const checked = await stage.settler.check(payment, terms)
    if (!checked.ok) throw new Error(checked.message)
    return { payment, terms, identity: checked.identity }
  }
  const poor = Keypair.generate()
  stage.chain.mintUsdc(addressOf(poor), price - 1n)
  t.match(await verify(await pay({ ...stage.cast, payer: poor })), { reason: reasons.insufficientFunds })
  const [payer, seller] = [Keypair.generate(), Keypair.generate()]
  const unpaying = await pay({ ...stage.cast, payer })
  const buyers = {
    reason: reasons.senderAccount,
    message: new RegExp(`buyer.*${addressOf(payer)}.*Send USDC`),
  }
  t.match(await verify(unpaying), buyers)
  const unpayable = await pay({ ...stage.cast, seller })
  const sellers = {
    reason: reasons.receiverAccount,
    message: new RegExp(`seller.*${addressOf(seller)}.*Make its`),
  }
  t.match(await verify(unpayable), sellers)
  stage.rpc.add('getMultipleAccounts', { kind: 'refuse' })
  t.match(await verify(unpayable), { reason: reasons.simulationFailed, message: /payer or of payTo/ })
  stage.rpc.clear()
  stage.chain.createAta(addressOf(seller))
  t.match(await verify(unpayable), { ok: true })

  type Answer = { value: { err: unknown } & { data: [string, string] }[] }
  stage.rpc.add('simulateTransaction', {
    kind: 'result',
    result: (real: Answer) => ({
      ...real,
      value: { ...real.value, err: { InstructionError: [2, { Custom: 17 }] } },
    }),
  } as never)
  t.match(await verify(unpayable), { reason: reasons.simulationFailed, message: /an account.*frozen/ })
  stage.rpc.add('getMultipleAccounts', {
    kind: 'result',
    result: (real: Answer) => {
      for (const account of real.value) {
        const data = Buffer.from(account.data[0], 'base64')
        data[108] = 2
        account.data[0] = data.toString('base64')
      }
      return real
    },
  } as never)
  const frozen = new RegExp(`seller.*${addressOf(seller)}.*frozen`)
  t.match(await verify(unpayable), { reason: reasons.simulationFailed, message: frozen })
  t.match(stage.settler.payee!(usdc.address, addressOf(seller)).fault, /frozen/, 'and is not offered')
  stage.rpc.clear()

  const old = await stage.pay()
  stage.chain.advanceSlots(200)
  t.match(await verify(old), { reason: reasons.blockhashExpired })
  t.equal(stage.rpc.calls('sendTransaction'), 0)
})

t.test('a fee payer without SOL is our fault, not the payment’s', async (t) => {
  const stage = await staged(t)
  const cast = { ...stage.cast, feePayer: Keypair.generate() }
  const settler = stage.another({ privateKey: JSON.stringify([...cast.feePayer.secretKey]) })
  const terms = termsOf(cast, usdc)
  const payment = await realPayment(cast.payer, terms, stage.chain.rpcUrl)
  const checked = await settler.check(payment, terms)
  if (!checked.ok) return t.fail(checked.message)
  t.match(await settler.verify(payment, terms, checked.identity, { storeId: 'store' }), {
    ok: false,
    transient: true,
  })
  t.match(await settler.diagnose(), [/has 0 lamports/])
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

t.test('the next node takes over when one is dead, overloaded, behind, or of another cluster', async (t) => {
  const stage = await staged(t)
  const faults = [
    { kind: 'refuse' },
    { kind: 'http-status', status: 503 },
    { kind: 'http-status', status: 429, retryAfterSeconds: 1 },
    { kind: 'error', code: -32005, message: 'Node is behind by 42 slots' },
  ] as const
  for (const fault of faults) {
    stage.rpc.add('*', fault)
    const settler = stage.another({ rpcUrls: [stage.rpc.url, stage.chain.rpcUrl] })
    const paid = await stage.pay()
    t.match(
      await settler.verify(paid.payment, paid.terms, paid.identity, { storeId: 'store' }),
      { ok: true },
      fault.kind,
    )
    t.match((await stage.settle(paid, settler)).outcome, { status: 'settled' })
    stage.rpc.clear()
  }
  stage.rpc.add('getGenesisHash', { kind: 'result', result: '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d' })
  const settler = stage.another({ rpcUrls: [stage.rpc.url, stage.chain.rpcUrl] })
  stage.rpc.resetCounters()
  const paid = await stage.pay()
  t.match(await settler.verify(paid.payment, paid.terms, paid.identity, { storeId: 'store' }), { ok: true })
  t.equal(stage.rpc.calls('simulateTransaction'), 0, 'a node of another cluster is not asked')
})

t.test(
  'without any node payments are refused as transient, statuses are unknown, and nothing throws',
  async (t) => {
    const stage = await staged(t)
    const paid = await stage.pay()
    const { record } = await stage.settle(paid)
    const next = await stage.pay()
    stage.rpc.add('*', { kind: 'refuse' })
    const settler = stage.another()
    await settler.start([])
    t.match(await settler.verify(next.payment, next.terms, next.identity, { storeId: 'store' }), {
      ok: false,
      transient: true,
    })
    t.match(await recoverOne(settler, record), { status: 'pending' })
    t.equal(await isOnChain(settler, record), 'unknown')
    t.match(await settler.diagnose(), [/No node answered/])
    const faults = (await settler.diagnose()).join()
    t.notMatch(faults, /http:/, 'a URL may hold a key')
  },
)

t.test('a healthy network has nothing to diagnose; a wrong cluster, mint or program is named', async (t) => {
  const stage = await staged(t)
  t.same(await stage.settler.diagnose(), [])
  const wrong = stage.another({
    assets: [
      { ...usdc, decimals: 9 },
      { ...dollar2022, program: 'token' },
      { ...usdc, address: addressOf(Keypair.generate()), symbol: 'NONE' },
    ],
  })
  t.match(await wrong.diagnose(), [/6 decimals/, /belongs to the program/, /does not exist/])
  stage.rpc.add('getGenesisHash', { kind: 'result', result: '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d' })
  t.match(await stage.another().diagnose(), [/serves chain 5eykt4/])
})

t.test('close ends the waits; what was sent is pending, and nothing new is signed', async (t) => {
  const stage = await staged(t, { confirmTimeoutMs: 60_000 })
  const paid = await stage.pay()
  stage.chain.hold()
  const settling = stage.settle(paid)
  await stage.rpc.whenCalled('sendTransaction')
  await stage.settler.close()
  t.match((await settling).outcome, { status: 'pending' })
  t.match((await stage.settle(await stage.pay())).outcome, { status: 'rejected', transient: true })
})

t.test('creation refuses what could never work, without repeating the key', async (t) => {
  const stage = await staged(t)
  t.throws(() => stage.another({ network: 'eip155:8453' }), { code: 'VALIDATION_ERROR' })
  t.throws(() => stage.another({ rpcUrls: [] }), { code: 'VALIDATION_ERROR' })
  for (const url of ['secret-key.example', 'ftp://a.example/secret-key', 'http://secret-key:99999/']) {
    for (const wrong of [{ rpcUrls: [url] }, { wsUrl: url }]) {
      t.throws(() => stage.another(wrong), { code: 'VALIDATION_ERROR', message: /^((?!secret).)*$/ })
    }
  }
  t.throws(() => stage.another({ privateKey: 'x' }), { code: 'VALIDATION_ERROR' })
  t.throws(() => stage.another({ assets: [{ ...usdc, address: 'x' }] }), { code: 'VALIDATION_ERROR' })
})
