import t from 'tap'
import { encodeFunctionData, multicall3Abi } from 'viem'
import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import {
  recordOf,
  remember,
  seller,
  signPayment,
  startSettler,
  usdc,
} from '../../../../test/helpers/chains/evm/settler.ts'
import { recoverOne } from '../../../../test/helpers/chains/recoverOne.ts'
import { readAuthorization } from '../check/authorization.ts'
import { payCall } from '../check/transferCalls.ts'
import type { Hex } from '../rpc/nodes.ts'
import { multicall3 } from './multicall.ts'

const transferTo = (payload: unknown): Hex => {
  const read = readAuthorization(payload)
  if (!read.ok) throw new Error(read.message)
  return payCall(usdc.address, read.authorization, undefined).data as Hex
}

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

/** Code of a contract that emits empty events until 100,000 gas are left. */
const noisy: Hex = `0x5b${'5f5fa0'.repeat(50)}620186a05a1160005700`

t.test('an observer can not hide transfers behind a receipt that is too long to be read', async (t) => {
  const { chain, settler, pay, terms } = await startSettler(t)
  const [observer] = await chain.rpc<[Hex]>('eth_accounts')
  const target: Hex = `0x${'be'.repeat(20)}`
  await chain.rpc('anvil_setCode', target, noisy)
  const paying = [await pay(), await pay()]
  const transfers = paying.map(({ payment }) => ({
    target: usdc.address as Hex,
    allowFailure: false,
    callData: transferTo(payment.payload),
  }))
  const data = encodeFunctionData({
    abi: multicall3Abi,
    functionName: 'aggregate3',
    args: [[...transfers, { target, allowFailure: false, callData: '0x' }]],
  })
  const attempts: SettlementAttempt[] = []
  let sending: Promise<Hex> | undefined
  const settled = await Promise.all(
    paying.map(({ payment, identity }) =>
      settler.settle(payment, terms, identity, async (attempt) => {
        attempts.push(attempt)
        sending ??= chain.rpc<Hex>('eth_sendTransaction', {
          from: observer,
          to: multicall3,
          data,
          gas: '0xc00000',
        })
        await sending
        return true
      }),
    ),
  )
  const transaction = await sending
  const length = chain.rpc('eth_getTransactionReceipt', transaction).then(JSON.stringify)
  await t.rejects(length, /more than \d+ bytes/, 'the receipt is long')
  for (const outcome of settled) t.match(outcome, { status: 'settled', transaction, chargedAtomic: 10_000n })
  t.equal(new Set(settled.map((outcome) => 'event' in outcome && outcome.event)).size, 2)
  const records = paying.map(({ identity }, i) => recordOf(identity, attempts[i]!))
  t.strictSame(await settler.recover(records), settled, 'and they are found after a crash as well')
  t.equal(await chain.balanceUsdc(seller as Hex), 20_000n, 'each was paid once')
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

t.test('a token that does not revert on a used nonce is not believed', async (t) => {
  const { chain, settler, buyer, pay, terms } = await startSettler(t)
  await chain.useToken('silent')
  const { payment, identity } = await pay()
  // The buyer has used the same nonce to pay another payee.
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
