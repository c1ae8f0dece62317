import { Keypair } from '@solana/web3.js'
import t from 'tap'
import { isOnChain, recoverOne } from '../../../../test/helpers/chains/recoverOne.ts'
import {
  addressOf,
  dollar2022,
  realPayment,
  termsOf,
  usdc,
} from '../../../../test/helpers/chains/solana/payments.ts'
import { price, type Stage, staged } from '../../../../test/helpers/chains/solana/stage.ts'
import { reasons } from '../reasons.ts'

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
    message: new RegExp(`seller.*${addressOf(seller)}.*Create its`),
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
  const settler = stage.another({ privateKeys: [JSON.stringify([...cast.feePayer.secretKey])] })
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
    t.match(await settler.diagnose(), [/No node responded to/])
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
  t.match(await wrong.diagnose(), [
    /to have 9 decimals, but it has 6/,
    /to belong to the program/,
    /does not exist/,
  ])
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
  t.throws(() => stage.another({ privateKeys: ['x'] }), { code: 'VALIDATION_ERROR' })
  t.throws(() => stage.another({ assets: [{ ...usdc, address: 'x' }] }), { code: 'VALIDATION_ERROR' })
})
