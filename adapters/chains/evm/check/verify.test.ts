import t from 'tap'
import { newAccount, signPayment, startSettler, usdc } from '../../../../test/helpers/chains/evm/settler.ts'

t.test('the chain’s own reasons are told', async (t) => {
  const { chain, settler, buyer, pay, terms } = await startSettler(t)

  const used = await pay()
  t.match(await settler.settle(used.payment, terms, used.identity, async () => true), { status: 'settled' })
  t.match(await settler.verify(used.payment, terms, used.identity, { storeId: 'store' }), {
    ok: false,
    reason: 'invalid_exact_evm_nonce_already_used',
    message: /before you pay again/,
  })

  const { payment, identity } = await pay()
  await chain.setBlacklisted(buyer.address, true)
  t.match(await settler.verify(payment, terms, identity, { storeId: 'store' }), {
    ok: false,
    reason: 'invalid_exact_evm_transaction_simulation_failed',
    message: /blacklisted/,
  })
  await chain.setBlacklisted(buyer.address, false)
  t.match(await settler.verify(payment, terms, identity, { storeId: 'store' }), { ok: true })

  const poor = newAccount()
  const unfunded = await signPayment(poor, terms)
  const checked = await settler.check(unfunded, terms)
  if (!checked.ok) return t.fail(checked.message)
  t.match(await settler.verify(unfunded, terms, checked.identity, { storeId: 'store' }), {
    ok: false,
    reason: 'invalid_exact_evm_insufficient_balance',
  })
})

t.test('a node that can’t say why a simulation failed refuses nothing for good', async (t) => {
  const { rpc, settler, pay, terms } = await startSettler(t)
  const { payment, identity } = await pay()
  t.match(await settler.settle(payment, terms, identity, async () => true), { status: 'settled' })
  const behind = { kind: 'error', code: -32_000, message: 'header not found' } as const
  // Only the simulation names its gas; the next call reads whether the nonce is used.
  rpc.onCall((_method, [call]) => {
    if ((call as { gas?: string } | undefined)?.gas !== undefined) rpc.add('eth_call', behind, 1)
  })
  t.match(await settler.verify(payment, terms, identity, { storeId: 'store' }), {
    ok: false,
    transient: true,
    reason: 'unexpected_verify_error',
  })
})

t.test('a simulation that needs more than the gas cap is refused', async (t) => {
  const { another, pay, terms } = await startSettler(t)
  const { payment, identity } = await pay()
  const tight = another({ maxGas: 40_000 })
  t.match(await tight.verify(payment, terms, identity, { storeId: 'store' }), {
    ok: false,
    reason: 'invalid_exact_evm_transaction_simulation_failed',
  })
})

t.test('an address without a token is not taken for one', async (t) => {
  const nowhere = { ...usdc, address: '0x00000000000000000000000000000000000000cc' }
  const { settler, buyer, terms } = await startSettler(t, { assets: [nowhere] })
  const other = { ...terms, asset: nowhere.address }
  const payment = await signPayment(buyer, other)
  const checked = await settler.check(payment, other)
  if (!checked.ok) return t.fail(checked.message)
  t.match(await settler.verify(payment, other, checked.identity, { storeId: 'store' }), {
    ok: false,
    reason: 'asset_not_deployed_contract',
  })
})

t.test('a payer whose payments keep failing on chain is refused before the chain is asked', async (t) => {
  let now = Date.now()
  const clock = { now: () => now }
  const { settler, rpc, terms } = await startSettler(t, {
    failureBudget: { failures: 2, windowMs: 60_000 },
    clock,
  })
  const poor = newAccount()
  const checkNew = async () => {
    const payment = await signPayment(poor, terms, { validBefore: String(Math.floor(now / 1000) + 50) })
    return { payment, checked: await settler.check(payment, terms) }
  }
  for (let i = 0; i < 2; i++) {
    const { payment, checked } = await checkNew()
    if (!checked.ok) return t.fail(checked.message)
    await settler.verify(payment, terms, checked.identity, { storeId: 'store' })
  }
  rpc.resetCounters()
  t.match((await checkNew()).checked, { ok: false, reason: 'payer_failure_budget_exhausted' })
  t.equal(rpc.calls(), 0)
  now += 60_001
  t.match((await checkNew()).checked, { ok: true }, 'the window has passed')
})

t.test('a healthy network has nothing to report, and a wrong token domain is named', async (t) => {
  const { settler, another } = await startSettler(t)
  t.same(await settler.diagnose(), [])
  const wrong = another({ assets: [{ ...usdc, decimals: 18, eip712: { name: 'USD Coin', version: '2' } }] })
  t.match(await wrong.diagnose(), [/another EIP-712 domain/, /has 6 decimals, expected 18/])
  const late = another({ staleHeadMs: 1, clock: { now: () => Date.now() + 3_600_000 } })
  t.match(await late.diagnose(), [/newest block is \d+ s old/])
})

t.test('a transfer counts only when it is as deep as wanted', async (t) => {
  const { chain, rpc, another, pay, terms } = await startSettler(t)
  const deep = another({ confirmations: 3 })
  const { payment, identity } = await pay()
  let isSettled = false
  const settling = deep
    .settle(payment, terms, identity, async () => true)
    .then((outcome) => {
      isSettled = true
      return outcome
    })
  // The second look has seen the block of the first.
  await rpc.whenCalled('eth_getTransactionReceipt', 2)
  t.equal(isSettled, false, 'one block is not enough')
  await chain.mine(2)
  t.match(await settling, { status: 'settled' })
})
