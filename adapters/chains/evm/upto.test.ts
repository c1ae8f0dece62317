import { UptoEvmScheme } from '@x402/evm/upto/client'
import t from 'tap'
import { encodeFunctionData, parseAbi } from 'viem'
import type { PaymentIdentity, SettlementAttempt } from '../../../core/domain/payment.ts'
import { permit2Address } from '../../../core/evm/permit2.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import {
  type PermitFields,
  proxies,
  signPermit,
  uptoTerms,
} from '../../../test/helpers/chains/evm/permit2.ts'
import {
  newAccount,
  remember,
  type SettlerFixture,
  seller,
  startSettler,
} from '../../../test/helpers/chains/evm/settler.ts'
import type { Hex } from './rpc/nodes.ts'

const store = { storeId: 'store' }
const sold = ({ chain }: SettlerFixture) => chain.balanceUsdc(seller as Hex)

/** Signs and checks a payment by `upto`. */
async function permit(
  { settler, buyer }: SettlerFixture,
  terms: PaymentRequirements,
  changes: Partial<PermitFields> = {},
): Promise<{ payment: PaymentPayload; identity: PaymentIdentity }> {
  const payment = await signPermit(buyer, terms, changes)
  const checked = await settler.check(payment, terms)
  if (!checked.ok) throw new Error(`${checked.reason}: ${checked.message}`)
  return { payment, identity: checked.identity }
}

/** The payer makes a nonce of Permit2 unusable. */
async function invalidateNonce({ chain, buyer }: SettlerFixture, nonce: bigint) {
  await chain.fundEth(buyer.address, 10n ** 18n)
  await chain.rpc('anvil_impersonateAccount', buyer.address)
  const data = encodeFunctionData({
    abi: parseAbi(['function invalidateUnorderedNonces(uint256 wordPos, uint256 mask)']),
    args: [nonce >> 8n, 1n << (nonce & 255n)],
  })
  await chain.send({ from: buyer.address, to: permit2Address, data })
}

t.test('a payment of the official client is charged less than its most, once', async (t) => {
  const f = await startSettler(t)
  const { settler, chain, buyer } = f
  await chain.allowPermit2(buyer.address)
  const terms = uptoTerms(f)
  t.match(terms.extra, {
    name: 'USDC',
    version: '2',
    assetTransferMethod: 'permit2',
    facilitatorAddress: /^0x/,
  })
  const created = await new UptoEvmScheme(buyer).createPaymentPayload(2, terms as never)
  const payment: PaymentPayload = {
    x402Version: 2,
    scheme: 'upto',
    network: terms.network,
    payload: created.payload,
    accepted: { ...terms },
  }
  const checked = settler.check(payment, terms)
  if (checked instanceof Promise || !checked.ok) return t.fail('it is checked in this process')
  const { identity } = checked
  t.match(identity, { payer: buyer.address, amountAtomic: 10_000n, nonce: /^\d+$/, payTo: seller })
  const verified = await settler.verify(payment, terms, identity, store)
  if (!verified.ok) return t.fail(verified.message)
  const attempts: SettlementAttempt[] = []
  const charged = { ...terms, amount: '4000' }
  const outcome = await settler.settle(payment, charged, identity, remember(attempts), verified.hold)
  t.match(outcome, {
    status: 'settled',
    transaction: attempts[0]!.transaction,
    event: '0',
    chargedAtomic: 4_000n,
  })
  t.equal(await sold(f), 4_000n)
  t.strictSame(settler.paymentsOf!(attempts[0]!), [identity.key])
  t.match(await settler.verify(payment, terms, identity, store), {
    reason: 'permit2_invalid_nonce',
    message: /before you pay again/,
  })
})

t.test('more than the most is refused, and nothing is signed', async (t) => {
  const f = await startSettler(t)
  await f.chain.allowPermit2(f.buyer.address)
  const terms = uptoTerms(f)
  const { payment, identity } = await permit(f, terms)
  const attempts: SettlementAttempt[] = []
  t.match(await f.settler.settle(payment, { ...terms, amount: '10001' }, identity, remember(attempts)), {
    status: 'rejected',
    reason: 'invalid_upto_evm_payload_settlement_exceeds_amount',
  })
  t.equal(attempts.length, 0)
})

t.test('a permit that does not fit the terms is refused with its own reason', async (t) => {
  const f = await startSettler(t)
  const { settler, buyer } = f
  const terms = uptoTerms(f)
  const now = Math.floor(Date.now() / 1000)
  const stranger = newAccount().address
  const cases: [reason: string, Partial<PermitFields>, hasIdentity: boolean][] = [
    ['invalid_permit2_spender', { spender: proxies.exact }, false],
    ['permit2_token_mismatch', { token: stranger }, false],
    ['invalid_permit2_recipient_mismatch', { to: stranger }, true],
    ['upto_facilitator_mismatch', { facilitator: stranger }, true],
    ['permit2_amount_mismatch', { amount: '9999' }, true],
    ['permit2_deadline_expired', { deadline: String(now + 3) }, true],
    ['permit2_deadline_expired', { deadline: String(now + 100_000) }, true],
    ['permit2_not_yet_valid', { validAfter: String(now + 100) }, true],
    ['invalid_permit2_signature', { from: stranger }, false],
  ]
  for (const [reason, changes, hasIdentity] of cases) {
    const checked = await settler.check(await signPermit(buyer, terms, changes), terms)
    t.match(checked, { ok: false, reason }, JSON.stringify(changes))
    t.equal('identity' in checked, hasIdentity, reason)
  }
  const good = await signPermit(buyer, terms)
  t.match(await settler.check({ ...good, scheme: 'exact' }, terms), { reason: 'invalid_upto_evm_scheme' })
  t.match(await settler.check({ ...good, network: 'eip155:1' }, terms), {
    reason: 'invalid_upto_evm_network_mismatch',
  })
})

t.test('what is no permit is not read, and never thrown at', async (t) => {
  const f = await startSettler(t)
  const terms = uptoTerms(f)
  const good = await signPermit(f.buyer, terms)
  const authorization = good.payload['permit2Authorization'] as Record<string, unknown>
  const wrong: unknown[] = [
    null,
    'x',
    [],
    {},
    { ...authorization, nonce: '01' },
    { ...authorization, nonce: (2n ** 256n).toString() },
    { ...authorization, nonce: 1 },
    { ...authorization, deadline: '-1' },
    { ...authorization, from: '0x1' },
    { ...authorization, witness: null },
    { ...authorization, witness: { ...(authorization['witness'] as object), facilitator: undefined } },
    { ...authorization, permitted: { token: terms.asset } },
    Object.create(authorization),
  ]
  for (const permit2Authorization of wrong) {
    const payment = { ...good, payload: { ...good.payload, permit2Authorization } }
    t.match(await f.settler.check(payment, terms), { ok: false, isUnread: true, reason: 'invalid_payload' })
  }
  for (const signature of [undefined, '0x', '0x1', 'x', 1])
    t.match(await f.settler.check({ ...good, payload: { ...good.payload, signature } }, terms), {
      isUnread: true,
    })
  t.match(
    await f.settler.check(
      { ...good, payload: { ...good.payload, signature: `0x${'11'.repeat(65)}` } },
      terms,
    ),
    {
      ok: false,
      reason: 'invalid_permit2_signature',
    },
  )
})

t.test('the chain’s own reasons are told, and how to allow Permit2', async (t) => {
  const f = await startSettler(t)
  const { settler, chain, buyer } = f
  const terms = uptoTerms(f)
  const verify = async (of = terms) => {
    const { payment, identity } = await permit(f, of)
    return settler.verify(payment, of, identity, store)
  }
  t.match(await verify(), {
    ok: false,
    reason: 'permit2_allowance_required',
    message:
      /Permit2 may move 0 .* at least 10000\. Call approve\(0x000000000022D473030F116dDEE9F6B43aC78BA3, amount\)/,
  })
  await chain.allowPermit2(buyer.address, 9_999n)
  t.match(await verify(), { reason: 'permit2_allowance_required', message: /may move 9999/ })
  await chain.allowPermit2(buyer.address)
  t.match(await verify(), { ok: true })
  t.match(await verify(uptoTerms(f, '5000001')), { reason: 'permit2_insufficient_balance' })
  await chain.setUsdcPaused(true)
  t.match(await verify(), { reason: 'permit2_simulation_failed' })
})

t.test('a payment’s balance and allowance have to cover the most of all payments in flight', async (t) => {
  const f = await startSettler(t)
  const { settler, chain, buyer } = f
  await chain.allowPermit2(buyer.address, 15_000n)
  const terms = uptoTerms(f)
  const first = await permit(f, terms)
  const held = await settler.verify(first.payment, terms, first.identity, store)
  if (!held.ok) return t.fail(held.message)
  const second = await permit(f, terms)
  t.match(await settler.verify(second.payment, terms, second.identity, store), {
    transient: true,
    reason: 'payments_in_flight_exceed_balance',
    message: /Permit2 may not move enough/,
  })
  held.hold.release()
  t.match(await settler.verify(second.payment, terms, second.identity, store), { ok: true })
})

t.test('a chain without the proxy or Permit2 sells nothing', async (t) => {
  const f = await startSettler(t)
  const { settler, chain, buyer } = f
  await chain.allowPermit2(buyer.address)
  await chain.rpc('anvil_setCode', proxies.upto, '0x')
  const terms = uptoTerms(f)
  const { payment, identity } = await permit(f, terms)
  t.match(await settler.verify(payment, terms, identity, store), { reason: 'permit2_proxy_not_deployed' })
})

t.test('a contract wallet pays by Permit2 (ERC-1271); one that is not deployed is told so', async (t) => {
  const f = await startSettler(t)
  const { settler, chain } = f
  const owner = newAccount()
  const wallet = await chain.deploySmartWallet(owner.address)
  await chain.mintUsdc(wallet, 100_000n)
  await chain.allowPermit2(wallet)
  const terms = uptoTerms(f)
  const payment = await signPermit(owner, terms, { from: wallet })
  const checked = await settler.check(payment, terms)
  if (!checked.ok) return t.fail(checked.message)
  t.match(await settler.verify(payment, terms, checked.identity, store), { ok: true })
  const charged = { ...terms, amount: '1' }
  t.match(await settler.settle(payment, charged, checked.identity, async () => true), {
    status: 'settled',
    chargedAtomic: 1n,
  })
  t.match(await settler.check(await signPermit(newAccount(), terms, { from: wallet }), terms), {
    reason: 'invalid_permit2_signature',
  })
})

t.test('each of several keys settles the payments that name it', async (t) => {
  const other = `0x${'7'.repeat(64)}` as const
  const f = await startSettler(t)
  const { chain, buyer, another, settlingKey } = f
  const settler = another({ privateKeys: [settlingKey, other] })
  await chain.allowPermit2(buyer.address)
  for (const { address } of await Promise.all(settler.keys!.map((key) => key.readState())))
    await chain.fundEth(address as Hex, 10n ** 18n)
  const terms = uptoTerms({ settler })
  const [first, second] = await Promise.all(settler.keys!.map(async (key) => (await key.readState()).address))
  t.equal(terms.extra['facilitatorAddress'], first)
  const attempts: SettlementAttempt[] = []
  for (const facilitator of [first!, second!]) {
    const payment = await signPermit(buyer, terms, { facilitator })
    const checked = await settler.check(payment, terms)
    if (!checked.ok) return t.fail(checked.message)
    const verified = await settler.verify(payment, terms, checked.identity, store)
    if (!verified.ok) return t.fail(verified.message)
    const charged = { ...terms, amount: '10' }
    const outcome = await settler.settle(
      payment,
      charged,
      checked.identity,
      remember(attempts),
      verified.hold,
    )
    t.match(outcome, { status: 'settled' })
  }
  t.strictSame(
    attempts.map((attempt) => attempt.settler),
    settler.keys!.map(({ id }) => id),
  )
})

t.test('many at once settle each in a transaction of its own', async (t) => {
  const f = await startSettler(t)
  const { settler, chain, buyer } = f
  await chain.allowPermit2(buyer.address)
  const terms = uptoTerms(f)
  const attempts: SettlementAttempt[] = []
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, async (_, i) => {
      const { payment, identity } = await permit(f, terms)
      const verified = await settler.verify(payment, terms, identity, store)
      if (!verified.ok) return verified
      const charged = { ...terms, amount: String(100 + i) }
      return settler.settle(payment, charged, identity, remember(attempts), verified.hold)
    }),
  )
  for (const [i, outcome] of outcomes.entries())
    t.match(outcome, { status: 'settled', chargedAtomic: BigInt(100 + i) })
  t.equal(new Set(attempts.map(({ transaction }) => transaction)).size, 20)
  t.equal(await sold(f), 2_190n)
})

t.test(
  'what the payer withdrew while the seller worked costs no gas, and counts as its failure',
  async (t) => {
    let nowMs = 0
    const clock = { now: () => Date.now() + nowMs }
    const f = await startSettler(t, { clock, failureBudget: { failures: 3, windowMs: 600_000 } })
    const { settler, chain, buyer } = f
    const terms = uptoTerms(f)
    const withdrawals: [reason: string, withdraw: (nonce: string) => Promise<unknown>][] = [
      ['permit2_allowance_required', () => chain.allowPermit2(buyer.address, 3_999n)],
      ['permit2_invalid_nonce', (nonce) => invalidateNonce(f, BigInt(nonce))],
      ['permit2_simulation_failed', () => chain.setBlacklisted(buyer.address, true)],
    ]
    const attempts: SettlementAttempt[] = []
    for (const [reason, withdraw] of withdrawals) {
      await chain.allowPermit2(buyer.address)
      const { payment, identity } = await permit(f, terms)
      const verified = await settler.verify(payment, terms, identity, store)
      if (!verified.ok) return t.fail(verified.message)
      await withdraw(identity.nonce)
      nowMs += 5_000
      const charged = { ...terms, amount: '4000' }
      const outcome = await settler.settle(payment, charged, identity, remember(attempts), verified.hold)
      t.match(outcome, { status: 'rejected', reason, transient: undefined })
    }
    t.equal(attempts.length, 0)
    const payment = await signPermit(buyer, terms)
    t.match(await settler.check(payment, terms), { reason: 'payer_failure_budget_exhausted' })
  },
)

t.test('a payer who withdrew part of what was verified is charged what is left', async (t) => {
  let nowMs = 0
  const f = await startSettler(t, { clock: { now: () => Date.now() + nowMs } })
  const { settler, chain, buyer } = f
  await chain.allowPermit2(buyer.address)
  const terms = uptoTerms(f)
  const { payment, identity } = await permit(f, terms)
  const verified = await settler.verify(payment, terms, identity, store)
  if (!verified.ok) return t.fail(verified.message)
  await chain.allowPermit2(buyer.address, 4_000n)
  nowMs += 5_000
  const charged = { ...terms, amount: '4000' }
  t.match(await settler.settle(payment, charged, identity, async () => true, verified.hold), {
    status: 'settled',
    chargedAtomic: 4_000n,
  })
})
