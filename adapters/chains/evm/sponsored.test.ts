import { UptoEvmScheme } from '@x402/evm/upto/client'
import t from 'tap'
import type { PaymentIdentity, SettlementAttempt } from '../../../core/domain/payment.ts'
import { encodeHeader, readPayment } from '../../../core/x402/header.ts'
import type { AllowancePermit, PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import {
  exactTerms,
  permitCall,
  signAllowance,
  signPermit,
  uptoTerms,
} from '../../../test/helpers/chains/evm/permit2.ts'
import {
  newAccount,
  recordOf,
  remember,
  type SettlerFixture,
  seller,
  startSettler,
} from '../../../test/helpers/chains/evm/settler.ts'
import { recoverOne } from '../../../test/helpers/chains/recoverOne.ts'
import type { Hex } from './rpc/nodes.ts'
import { callOf } from './settle/transaction.ts'

const store = { storeId: 'store' }
const sold = ({ chain }: SettlerFixture) => chain.balanceUsdc(seller as Hex)
const settleWithPermit = /^0x016c1748/
const settle = /^0xff11e7b4/

/** Signs and checks a payment with a permit of the token. */
async function sponsored(
  { settler, buyer }: Pick<SettlerFixture, 'settler' | 'buyer'>,
  terms: PaymentRequirements,
  changes: Partial<AllowancePermit> = {},
): Promise<{ payment: PaymentPayload; identity: PaymentIdentity; permit: AllowancePermit }> {
  const permit = await signAllowance(buyer, terms, changes)
  const payment = { ...(await signPermit(buyer, terms)), allowancePermit: permit }
  const checked = await settler.check(payment, terms)
  if (!checked.ok) throw new Error(`${checked.reason}: ${checked.message}`)
  return { payment, identity: checked.identity, permit }
}

/** A sponsored payment that the chain has verified. */
async function verified(f: SettlerFixture, terms = uptoTerms(f), changes: Partial<AllowancePermit> = {}) {
  const paid = await sponsored(f, terms, changes)
  const found = await f.settler.verify(paid.payment, terms, paid.identity, store)
  if (!found.ok) throw new Error(found.message)
  const attempts: SettlementAttempt[] = []
  const charge = (amount: string) =>
    f.settler.settle(paid.payment, { ...terms, amount }, paid.identity, remember(attempts), found.hold)
  return { ...paid, attempts, charge }
}

/** Another account submits the permit. */
async function submit({ chain }: SettlerFixture, permit: AllowancePermit) {
  const [from] = await chain.rpc<[Hex]>('eth_accounts')
  await chain.send({ from, ...permitCall(permit) })
}

t.test('a first payment of the official client lands without an allowance, once', async (t) => {
  const f = await startSettler(t)
  const { settler, chain, buyer } = f
  t.equal(settler.sponsorsAllowance, true)
  const terms = uptoTerms(f)
  const client = new UptoEvmScheme(buyer, { rpcUrl: chain.rpcUrl })
  const context = { extensions: { eip2612GasSponsoring: { info: {}, schema: {} } } }
  const created = await client.createPaymentPayload(2, terms as never, context)
  const read = readPayment(encodeHeader({ ...created, accepted: terms }))
  if (!read.ok) return t.fail(read.message)
  const checked = await settler.check(read.payment, terms)
  if (!checked.ok) return t.fail(checked.message)
  const { identity } = checked
  const found = await settler.verify(read.payment, terms, identity, store)
  if (!found.ok) return t.fail(found.message)
  const attempts: SettlementAttempt[] = []
  const charged = { ...terms, amount: '4000' }
  t.match(await settler.settle(read.payment, charged, identity, remember(attempts), found.hold), {
    status: 'settled',
    transaction: attempts[0]!.transaction,
    chargedAtomic: 4_000n,
  })
  t.match(callOf(attempts[0]!.bytes).data, settleWithPermit)
  t.strictSame(settler.paymentsOf!(attempts[0]!), [identity.key])
  t.equal(await sold(f), 4_000n)
  t.match(await settler.verify(read.payment, terms, identity, store), {
    reason: 'permit2_allowance_required',
  })
})

t.test('a payment by exact is sponsored too', async (t) => {
  const f = await startSettler(t)
  const { charge, attempts } = await verified(f, exactTerms())
  t.match(await charge('10000'), { status: 'settled', chargedAtomic: 10_000n })
  t.match(callOf(attempts[0]!.bytes).data, /^0xfa340378/)
})

t.test('a permit that another account submits meanwhile is left out', async (t) => {
  const f = await startSettler(t)
  const { permit, charge, attempts } = await verified(f)
  await submit(f, permit)
  t.match(await charge('4000'), { status: 'settled', chargedAtomic: 4_000n })
  t.match(callOf(attempts[0]!.bytes).data, settle)
})

t.test('a permit that lands just before the payment does not stop it', async (t) => {
  const f = await startSettler(t)
  const { permit, charge, attempts } = await verified(f)
  f.rpc.add('eth_call', { kind: 'error', code: -32_000, message: 'away' })
  await submit(f, permit)
  t.match(await charge('4000'), { status: 'settled', chargedAtomic: 4_000n })
  t.match(callOf(attempts[0]!.bytes).data, settleWithPermit, 'the node did not say that it is needless')
})

t.test(
  'a permit whose nonce was used otherwise costs no gas, and counts as a failure of its payer',
  async (t) => {
    const f = await startSettler(t, { failureBudget: { failures: 1, windowMs: 600_000 } })
    const { payment, charge, attempts } = await verified(f)
    await submit(f, await signAllowance(f.buyer, f.terms, { amount: '1' }))
    t.match(await charge('4000'), { status: 'rejected', reason: 'permit2_allowance_required' })
    t.equal(attempts.length, 0)
    t.match(await f.settler.check(payment, uptoTerms(f)), { reason: 'payer_failure_budget_exhausted' })
  },
)

t.test('a permit that expires while the seller works costs no gas', async (t) => {
  let aheadMs = 0
  const f = await startSettler(t, { clock: { now: () => Date.now() + aheadMs } })
  for (const terms of [uptoTerms(f), exactTerms()]) {
    const deadline = String(Math.floor((Date.now() + aheadMs) / 1_000) + 10)
    const { charge, attempts } = await verified(f, terms, { deadline })
    aheadMs += 20_000
    await f.chain.rpc('evm_increaseTime', 20)
    await f.chain.mine()
    t.match(await charge(terms.amount), { status: 'rejected', reason: 'permit2_allowance_required' })
    t.equal(attempts.length, 0)
  }
})

t.test('a permit that does not fit is refused with its own reason', async (t) => {
  const f = await startSettler(t)
  const { settler, buyer } = f
  const terms = uptoTerms(f)
  const now = Math.floor(Date.now() / 1000)
  const stranger = newAccount().address
  const cases: [reason: string, Partial<AllowancePermit>, hasIdentity: boolean][] = [
    ['eip2612_from_mismatch', { from: stranger }, false],
    ['eip2612_asset_mismatch', { asset: stranger }, false],
    ['eip2612_spender_not_permit2', { spender: stranger }, false],
    ['permit2_amount_mismatch', { amount: '10001' }, false],
    ['eip2612_deadline_expired', { deadline: String(now + 3) }, true],
    ['invalid_eip2612_extension_format', { signature: `0x${'1'.repeat(128)}` }, false],
  ]
  for (const [reason, changes, hasIdentity] of cases) {
    const permit = await signAllowance(buyer, terms, changes)
    const payment = { ...(await signPermit(buyer, terms)), allowancePermit: permit }
    const checked = await settler.check(payment, terms)
    t.match(checked, { ok: false, reason })
    t.equal('identity' in checked, hasIdentity, reason)
  }
  const allowancePermit = { ...(await signAllowance(buyer, terms)), deadline: (2n ** 256n).toString() }
  t.match(await settler.check({ ...(await signPermit(buyer, terms)), allowancePermit }, terms), {
    ok: false,
    reason: 'invalid_eip2612_extension_format',
  })
  for (const changes of [{ nonce: '1' }, { signature: `0x${'1'.repeat(130)}` as const }]) {
    const { payment, identity } = await sponsored(f, terms, changes)
    t.match(await settler.verify(payment, terms, identity, store), {
      reason: 'permit2_allowance_required',
      extra: { approval: { to: terms.asset } },
    })
  }
})

t.test('of 20 payments at once with one permit nonce, one lands and the others cost no gas', async (t) => {
  const f = await startSettler(t)
  const terms = uptoTerms(f)
  const attempts: SettlementAttempt[] = []
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const { payment, identity } = await sponsored(f, terms)
      const found = await f.settler.verify(payment, terms, identity, store)
      if (!found.ok) return found
      return f.settler.settle(payment, terms, identity, remember(attempts), found.hold)
    }),
  )
  const settled = outcomes.filter((one) => 'status' in one && one.status === 'settled')
  const expected = ['payments_in_flight_exceed_balance', 'permit2_allowance_required']
  const refused = outcomes.filter((one) => 'ok' in one && expected.includes(one.reason))
  t.equal(settled.length, 1)
  t.equal(refused.length, 19)
  t.equal(attempts.length, 1)
  t.equal(await sold(f), 10_000n)
})

t.test(
  'a sponsored settlement that was stored and never sent is sent, and proved like any other',
  async (t) => {
    const f = await startSettler(t)
    const { identity, charge, attempts } = await verified(f)
    f.rpc.add('eth_sendRawTransaction', { kind: 'error', code: -32_000, message: 'away' })
    const charging = charge('4000')
    const dead = await charging
    t.match(dead, { status: 'pending' })
    await f.settler.close()
    f.rpc.clear()
    const record = {
      ...recordOf(identity, attempts[0]!),
      scheme: 'upto',
      chargedAtomic: 4_000n,
      claimedAtMs: Date.now(),
    }
    const later = f.another()
    t.match(await recoverOne(later, record), { status: 'pending' })
    t.match(await recoverOne(later, record), {
      status: 'settled',
      transaction: attempts[0]!.transaction,
      chargedAtomic: 4_000n,
    })
    t.equal(await sold(f), 4_000n)
  },
)
