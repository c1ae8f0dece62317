import t from 'tap'
import { keccak256, parseTransaction } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import {
  recordOf,
  remember,
  seller,
  startSettler,
  usdc,
} from '../../../../test/helpers/chains/evm/settler.ts'
import { recoverOne } from '../../../../test/helpers/chains/recoverOne.ts'
import type { Hex } from '../rpc/nodes.ts'

t.test('an account nonce that somebody else used does not make a second transfer', async (t) => {
  const { chain, settler, pay, terms } = await startSettler(t, { receiptTimeoutMs: 1_000, sharedKeyMs: 0 })
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
  const empty = another({ privateKeys: [`0x${'42'.repeat(32)}`] })
  t.match(await empty.settle(payment, terms, identity, remember(attempts)), {
    status: 'rejected',
    transient: true,
  })
  t.match(await empty.diagnose(), [/Send ether to the account/])
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
    // Behind a gap that was filled late, the payment may be open, and recovery then finds it.
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
    // The base fee is twenty times what it was, so a transaction with twice the old base fee cannot be mined.
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
  const settler = another({ privateKeys: [key] })
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
  const dry = another({ privateKeys: [key] })
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
