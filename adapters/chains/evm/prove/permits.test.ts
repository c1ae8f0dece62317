import t from 'tap'
import { encodeFunctionData, parseAbi } from 'viem'
import type { PaymentIdentity, PaymentRecord, SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../../core/x402/types.ts'
import { PERMIT2_ADDRESS } from '../../../../localnet/evm/startLocalEvm.ts'
import { exactTerms, signPermit, uptoTerms } from '../../../../test/helpers/chains/evm/permit2.ts'
import {
  recordOf,
  remember,
  type SettlerFixture,
  seller,
  signPayment,
  startSettler,
  termsOf,
} from '../../../../test/helpers/chains/evm/settler.ts'
import { recoverOne } from '../../../../test/helpers/chains/recoverOne.ts'
import { readSigned } from '../check/signedPayment.ts'
import { payCall } from '../check/transferCalls.ts'
import type { Hex } from '../rpc/nodes.ts'
import { aggregate3 } from '../settle/multicall.ts'

const sold = ({ chain }: Pick<SettlerFixture, 'chain'>) => chain.balanceUsdc(seller as Hex)

interface Paid {
  readonly payment: PaymentPayload
  readonly identity: PaymentIdentity
  readonly terms: PaymentRequirements
}

async function start(t: Parameters<typeof startSettler>[0], changes = {}) {
  const f = await startSettler(t, changes)
  await f.chain.allowPermit2(f.buyer.address)
  await f.chain.fundEth(f.buyer.address, 10n ** 18n)
  await f.chain.rpc('anvil_impersonateAccount', f.buyer.address)
  const pay = async (terms: PaymentRequirements, changes = {}): Promise<Paid> => {
    const payment = await signPermit(f.buyer, terms, changes)
    const checked = await f.settler.check(payment, terms)
    if (!checked.ok) throw new Error(checked.message)
    return { payment, identity: checked.identity, terms }
  }
  /** The call that any account may send for a payment by `exact`. */
  const callOf = ({ payment, terms }: Paid) => {
    const read = readSigned(payment)
    if (!read.ok) throw new Error(read.message)
    return payCall(terms.asset, read.authorization, undefined)
  }
  /** Signs and stores a settlement that never leaves the process, as if it had crashed. */
  const crash = async ({ payment, identity, terms }: Paid, amount = terms.amount): Promise<PaymentRecord> => {
    const attempts: SettlementAttempt[] = []
    f.rpc.add('eth_sendRawTransaction', { kind: 'error', code: -32_000, message: 'away' })
    const dying = f.another({ receiptTimeoutMs: 50 })
    await dying.settle(payment, { ...terms, amount }, identity, remember(attempts))
    await dying.close()
    f.rpc.clear()
    const chargedAtomic = terms.scheme === 'upto' ? BigInt(amount) : null
    return {
      ...recordOf(identity, attempts[0]!),
      scheme: terms.scheme,
      chargedAtomic,
      claimedAtMs: Date.now(),
    }
  }
  return { ...f, pay, callOf, crash }
}

t.test('a settlement that was stored and never sent is sent, and charges what was stored', async (t) => {
  const f = await start(t)
  const record = await f.crash(await f.pay(uptoTerms(f)), '4000')
  const later = f.another()
  t.match(await recoverOne(later, record), { status: 'pending' })
  t.match(await recoverOne(later, record), {
    status: 'settled',
    transaction: record.attempt!.transaction,
    chargedAtomic: 4_000n,
    event: '0',
  })
  t.equal(await sold(f), 4_000n)
  t.match(await later.stillOnChain([{ ...record, transaction: record.attempt!.transaction, event: '0' }]), [
    'yes',
  ])
})

t.test('a settlement that left the chain is missed, and is sent again', async (t) => {
  const f = await start(t)
  const { settler, chain } = f
  const { payment, identity, terms } = await f.pay(uptoTerms(f))
  const attempts: SettlementAttempt[] = []
  const outcome = await settler.settle(payment, { ...terms, amount: '7' }, identity, remember(attempts))
  if (outcome.status !== 'settled') return t.fail(outcome.status)
  const { transaction, event, block } = outcome
  const record = {
    ...recordOf(identity, attempts[0]!, transaction),
    scheme: 'upto',
    event,
    block,
    chargedAtomic: 7n,
    claimedAtMs: Date.now(),
  }
  t.strictSame(await settler.stillOnChain([record]), ['yes'])
  await chain.reorg(1)
  await chain.mine(2)
  t.strictSame(await settler.stillOnChain([record]), ['no'])
  t.match(await recoverOne(settler, record), { status: 'pending' })
  t.match(await recoverOne(settler, record), { status: 'settled', chargedAtomic: 7n })
  t.equal(await sold(f), 7n)
})

t.test('a payment whose nonce its payer has invalidated can never land', async (t) => {
  const f = await start(t)
  const paid = await f.pay(uptoTerms(f))
  const record = await f.crash(paid)
  const nonce = BigInt(paid.identity.nonce)
  const data = encodeFunctionData({
    abi: parseAbi(['function invalidateUnorderedNonces(uint256 wordPos, uint256 mask)']),
    args: [nonce >> 8n, 1n << (nonce & 0xffn)],
  })
  await f.chain.send({ from: f.buyer.address, to: PERMIT2_ADDRESS, data })
  t.match(await recoverOne(f.another(), record), {
    status: 'failed_final',
    reason: 'permit2_invalid_nonce',
    message: 'The authorization was cancelled or used for other terms.',
  })
  t.match(await recoverOne(f.another({ confirmations: 3 }), record), { status: 'pending' }, 'not deep enough')
  await f.chain.mine(2)
  t.match(await recoverOne(f.another({ confirmations: 3 }), record), { status: 'failed_final' })
  t.match(await f.settler.settle(paid.payment, paid.terms, paid.identity, async () => true), {
    status: 'failed_final',
  })
  t.equal(await sold(f), 0n)
})

t.test('a nonce that its payer has used for another payee is no payment', async (t) => {
  const f = await start(t)
  const paid = await f.pay(exactTerms())
  const record = await f.crash(paid)
  // Another payment by the same permit's nonce, in the same amount.
  const elsewhere = { ...exactTerms(), payTo: `0x${'9'.repeat(40)}` }
  await f.chain.send({
    from: f.buyer.address,
    ...f.callOf(await f.pay(elsewhere, { nonce: paid.identity.nonce })),
  })
  // And a payment of the same amount to the same payee, by another nonce.
  await f.chain.send({ from: f.buyer.address, ...f.callOf(await f.pay(exactTerms())) })
  t.equal(await sold(f), 10_000n)
  t.match(await recoverOne(f.another(), record), { status: 'failed_final', reason: 'permit2_invalid_nonce' })
})

t.test('a nonce that its payer has used for a smaller payment to the same payee is no payment', async (t) => {
  for (const scheme of ['exact', 'upto'] as const) {
    const f = await start(t)
    const terms = scheme === 'exact' ? exactTerms() : uptoTerms(f)
    const paid = await f.pay(terms)
    const record = await f.crash(paid, scheme === 'exact' ? '10000' : '8000')
    const smaller = await signPermit(f.buyer, exactTerms('1'), { nonce: paid.identity.nonce })
    const call = f.callOf({ payment: smaller, identity: paid.identity, terms: exactTerms('1') })
    await f.chain.send({ from: f.buyer.address, ...call })
    t.equal(await sold(f), 1n)
    const expected = { status: 'failed_final', reason: 'permit2_invalid_nonce' }
    t.match(await recoverOne(f.another(), record), expected, scheme)
    const charged = { ...terms, amount: scheme === 'exact' ? '10000' : '8000' }
    t.match(await f.settler.settle(paid.payment, charged, paid.identity, async () => true), expected, scheme)
  }
})

t.test('a payment by EIP-3009 does not also pay for a permit', async (t) => {
  const f = await start(t)
  const paid = await f.pay(exactTerms())
  const record = await f.crash(paid)
  const { identity } = paid
  const authorized = f.callOf({ identity, terms: termsOf(), payment: await signPayment(f.buyer, termsOf()) })
  const smaller = await f.pay(exactTerms('1'), { nonce: paid.identity.nonce })
  const [from] = await f.chain.rpc<[Hex]>('eth_accounts')
  await f.chain.send({ from, ...aggregate3([authorized, f.callOf(smaller)]), gas: '0x7a120' })
  t.equal(await sold(f), 10_001n)
  t.match(await recoverOne(f.another(), record), { status: 'failed_final', reason: 'permit2_invalid_nonce' })
})

for (const through of ['the proxy', 'another contract'] as const) {
  t.test(`a payment by exact that a stranger has sent through ${through} is found`, async (t) => {
    const f = await start(t)
    const paid = await f.pay(exactTerms())
    const record = await f.crash(paid)
    const other = f.callOf(await f.pay(exactTerms()))
    const own = f.callOf(paid)
    const [from] = await f.chain.rpc<[Hex]>('eth_accounts')
    if (through === 'the proxy') await f.chain.send({ from, ...other })
    const call = through === 'the proxy' ? own : aggregate3([own])
    // An estimate would leave the inner call without gas, because it may fail.
    const transaction = await f.chain.send({ from, ...call, gas: '0x7a120' })
    t.match(await recoverOne(f.another(), record), {
      status: 'settled',
      transaction,
      event: '0',
      chargedAtomic: 10_000n,
    })
  })
}

t.test('a payment by exact through Permit2 is settled alone, whatever else is in flight', async (t) => {
  const f = await start(t)
  const attempts: SettlementAttempt[] = []
  const outcomes = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const { payment, identity, terms } = await f.pay(exactTerms())
      const verified = await f.settler.verify(payment, terms, identity, { storeId: 'store' })
      if (!verified.ok) return verified
      return f.settler.settle(payment, terms, identity, remember(attempts), verified.hold)
    }),
  )
  for (const outcome of outcomes) t.match(outcome, { status: 'settled', chargedAtomic: 10_000n })
  t.notOk(attempts.some(({ isShared }) => isShared))
})

t.test('an unused permit has expired for good once its deadline is long over', async (t) => {
  const f = await start(t)
  const record = await f.crash(await f.pay(uptoTerms(f)))
  await f.chain.dropTransaction(record.attempt!.transaction as Hex)
  await f.chain.advanceTime(91)
  t.match(await recoverOne(f.another(), record), {
    status: 'failed_final',
    reason: 'invalid_exact_evm_payload_authorization_valid_before',
  })
})

t.test('a node that does not return the transfers proves nothing', async (t) => {
  const f = await start(t)
  const paid = await f.pay(exactTerms())
  const record = await f.crash(paid)
  await f.chain.send({ from: f.buyer.address, ...f.callOf(paid) })
  for (const method of ['eth_getLogs', 'eth_getTransactionByHash']) {
    f.rpc.add(method, { kind: 'error', code: -32_000, message: 'pruned' })
    t.match(await recoverOne(f.another(), record), { status: 'pending' }, method)
    f.rpc.clear()
  }
  t.match(await recoverOne(f.another(), record), { status: 'settled' })
})
