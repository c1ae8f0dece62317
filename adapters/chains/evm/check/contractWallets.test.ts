import t from 'tap'
import { encodeAbiParameters, serializeErc6492Signature } from 'viem'
import {
  newAccount,
  seller,
  signPayment,
  startSettler,
  termsOf,
} from '../../../../test/helpers/chains/evm/settler.ts'
import type { Hex } from '../rpc/nodes.ts'

/** Owner index and signature, as larger contract wallets wrap theirs. */
const wrap = (signature: Hex): Hex =>
  encodeAbiParameters([{ type: 'uint256' }, { type: 'bytes' }], [0n, signature])

t.test(
  'a contract wallet pays: with a plain signature of its owner and with a wrapped one (ERC-1271)',
  async (t) => {
    const { chain, settler } = await startSettler(t)
    const owner = newAccount()
    const wallet = await chain.deploySmartWallet(owner.address)
    await chain.mintUsdc(wallet, 1_000_000n)
    const terms = termsOf()
    for (const form of [(signature: Hex) => signature, wrap]) {
      const payment = await signPayment(owner, terms, { from: wallet }, form)
      const checking = settler.check(payment, terms)
      t.ok(checking instanceof Promise, 'the chain is asked')
      const checked = await checking
      if (!checked.ok) return t.fail(checked.message)
      t.equal(checked.identity.payer, wallet)
      t.match(await settler.verify(payment, terms, checked.identity, { storeId: 'store' }), { ok: true })
      t.match(await settler.settle(payment, terms, checked.identity, async () => true), { status: 'settled' })
    }
    t.equal(await chain.balanceUsdc(seller as Hex), 20_000n)
  },
)

t.test(
  'a contract wallet’s signature by somebody else is refused, and so is one for an account without code',
  async (t) => {
    const { chain, settler, rpc } = await startSettler(t)
    const wallet = await chain.deploySmartWallet(newAccount().address)
    const terms = termsOf()
    const stranger = newAccount()
    const refusal = { ok: false, reason: 'invalid_exact_evm_signature' }
    t.match(await settler.check(await signPayment(stranger, terms, { from: wallet }), terms), refusal)
    t.match(await settler.check(await signPayment(stranger, terms, { from: wallet }, wrap), terms), refusal)

    const plain = { from: newAccount().address }
    rpc.resetCounters()
    t.match(await settler.check(await signPayment(stranger, terms, plain), terms), refusal)
    t.match(await settler.check(await signPayment(stranger, terms, plain), terms), refusal)
    t.equal(rpc.calls('eth_getCode'), 1, 'the payer is looked up once')
    t.equal(rpc.calls('eth_call'), 0)
  },
)

t.test('a wallet that does not exist yet pays only through an allowed factory (ERC-6492)', async (t) => {
  const { chain, settler, another } = await startSettler(t)
  const owner = newAccount()
  const wallet = await chain.smartWalletAddress(owner.address)
  await chain.mintUsdc(wallet, 1_000_000n)
  const terms = termsOf()
  const counterfactual = (signature: Hex): Hex =>
    serializeErc6492Signature({
      address: chain.smartWalletFactory,
      data: chain.smartWalletCalldata(owner.address),
      signature,
    })
  const payment = await signPayment(owner, terms, { from: wallet }, counterfactual)
  t.match(await settler.check(payment, terms), { ok: false, reason: 'eip6492_factory_not_allowed' })

  const open = another({ factories: [chain.smartWalletFactory], maxGas: 1_000_000 })
  const stranger = await signPayment(newAccount(), terms, { from: wallet }, counterfactual)
  t.match(await open.check(stranger, terms), { ok: false, reason: 'invalid_exact_evm_signature' })

  const checked = await open.check(payment, terms)
  if (!checked.ok) return t.fail(checked.message)
  t.match(await settler.verify(payment, terms, checked.identity, { storeId: 'store' }), {
    ok: false,
    reason: 'eip6492_factory_not_allowed',
  })
  t.match(await settler.settle(payment, terms, checked.identity, async () => true), {
    status: 'rejected',
    reason: 'eip6492_factory_not_allowed',
  })
  t.match(await open.verify(payment, terms, checked.identity, { storeId: 'store' }), { ok: true })
  t.match(await open.settle(payment, terms, checked.identity, async () => true), { status: 'settled' })
  t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
  t.not(await chain.rpc('eth_getCode', wallet, 'latest'), '0x', 'the wallet was made on the way')

  const fresh = another()
  const second = await signPayment(owner, terms, { from: wallet }, counterfactual)
  const again = await fresh.check(second, terms)
  if (!again.ok) return t.fail(again.message)
  t.match(
    await fresh.settle(second, terms, again.identity, async () => true),
    { status: 'settled' },
    'no factory is needed now',
  )
})

t.test('a contract wallet can not be judged while the nodes are away', async (t) => {
  const { chain, settler, rpc } = await startSettler(t)
  const owner = newAccount()
  const wallet = await chain.deploySmartWallet(owner.address)
  rpc.add('*', { kind: 'refuse' })
  const terms = termsOf()
  const payment = await signPayment(owner, terms, { from: wallet })
  t.match(await settler.check(payment, terms), { ok: false, transient: true })
})
