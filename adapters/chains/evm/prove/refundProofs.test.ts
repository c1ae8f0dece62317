import t, { type Test } from 'tap'
import { type Address, encodeFunctionData, multicall3Abi } from 'viem'
import {
  network,
  newAccount,
  remember,
  signPayment,
  startSettler,
  termsOf,
  usdc,
} from '../../../../test/helpers/chains/evm/settler.ts'
import { sendFrom, sendUsdc, transferCall } from '../../../../test/helpers/localnet/sendToken.ts'
import { startFaultyRpc } from '../../../../test/helpers/localnet/startFaultyRpc.ts'
import { type EvmProofsOptions, openNodes } from '../rpc/nodes.ts'
import { multicall3 } from '../settle/multicall.ts'
import { createEvmRefundProofs } from './refundProofs.ts'

/** A sale that was settled, and a seller with enough money to refund it. */
async function sold(t: Test, options: Partial<EvmProofsOptions> = {}) {
  const fixture = await startSettler(t)
  const { chain, rpc, settler, buyer } = fixture
  const sellerAccount = newAccount()
  const seller = sellerAccount.address
  const terms = termsOf({ payTo: seller })
  const payment = await signPayment(buyer, terms)
  const checked = await settler.check(payment, terms)
  if (!checked.ok) throw new Error(checked.message)
  const outcome = await settler.settle(payment, terms, checked.identity, remember([]))
  if (outcome.status !== 'settled') throw new Error(outcome.reason)
  await chain.mintUsdc(seller, 1_000_000n)
  const proofs = createEvmRefundProofs(openNodes({ network, rpcUrls: [rpc.url], ...options }))
  const prove = (transaction: string, more: object = {}) =>
    proofs.prove({
      network,
      asset: usdc.address,
      from: seller,
      to: buyer.address,
      amountAtomic: 10_000n,
      transaction,
      saleTransaction: outcome.transaction!,
      ...more,
    })
  const sale = outcome.transaction!
  return { ...fixture, seller, sellerAccount, buyer: buyer.address as Address, sale, prove }
}

t.test('a plain transfer back is proved, and what is not one is not', async (t) => {
  const { chain, seller, buyer, sale, prove } = await sold(t)
  t.strictSame(await prove(await sendUsdc(chain, seller, buyer, 10_000n)), {
    status: 'proved',
    paymentKeys: [],
  })
  const less = await sendUsdc(chain, seller, buyer, 9_999n)
  t.strictSame(await prove(less), { status: 'mismatch', what: 'amount' })
  t.match(await prove(less, { amountAtomic: 9_999n }), { status: 'proved' })
  const wrongWay = await sendUsdc(chain, buyer, seller, 10_000n)
  t.strictSame(await prove(wrongWay), { status: 'mismatch', what: 'recipient' })
  const elsewhere = await sendUsdc(chain, seller, newAccount().address, 10_000n)
  t.strictSame(await prove(elsewhere), { status: 'mismatch', what: 'recipient' })
  const stranger = newAccount().address
  await chain.mintUsdc(stranger, 10_000n)
  const gift = await sendUsdc(chain, stranger, buyer, 10_000n)
  t.strictSame(await prove(gift), { status: 'mismatch', what: 'sender' })
  const poor = await sendUsdc(chain, seller, buyer, 5_000_000n)
  t.strictSame(await prove(poor), { status: 'reverted' })
  t.strictSame(await prove(sale), { status: 'mismatch', what: 'recipient' }, 'the sale is no refund')
  const ether = await sendFrom(chain, seller, buyer, '0x')
  t.strictSame(await prove(ether), { status: 'mismatch', what: 'asset' })
  t.match(await prove(`0x${'ab'.repeat(32)}`), { status: 'not_found' })
})

t.test(
  'a transfer back that a contract made of the seller’s money counts, in a bundle as well',
  async (t) => {
    const { chain, buyer, prove } = await sold(t)
    // The seller is Multicall3 itself, whose money any caller can move, as the owners of a contract wallet could.
    const wallet = chain.multicall3Address
    await chain.mintUsdc(wallet, 50_000n)
    const call = (to: Address, amount: bigint) => ({
      target: chain.usdcAddress,
      allowFailure: false,
      callData: transferCall(to, amount),
    })
    const args = [[call(newAccount().address, 7n), call(buyer, 10_000n)]] as const
    const data = encodeFunctionData({ abi: multicall3Abi, functionName: 'aggregate3', args })
    const bundle = await sendFrom(chain, newAccount().address, multicall3, data)
    t.match(await prove(bundle, { from: wallet }), { status: 'proved' })
  },
)

t.test('a payment that the seller makes to the buyer is named by its key', async (t) => {
  const { settler, sellerAccount, buyer, prove } = await sold(t)
  const terms = termsOf({ payTo: buyer })
  const payment = await signPayment(sellerAccount, terms)
  const checked = await settler.check(payment, terms)
  if (!checked.ok) throw new Error(checked.message)
  const outcome = await settler.settle(payment, terms, checked.identity, remember([]))
  t.equal(outcome.status, 'settled')
  const { transaction } = outcome as { transaction: string }
  t.strictSame(await prove(transaction), { status: 'proved', paymentKeys: [checked.identity.key] })
})

t.test('a transfer counts once it is as deep as a payment must be, and a fork takes it back', async (t) => {
  const { chain, seller, buyer, prove } = await sold(t, { confirmations: 3 })
  await chain.setAutomine(false)
  const back = await sendUsdc(chain, seller, buyer, 10_000n)
  t.match(await prove(back), { status: 'not_found' }, 'on its way')
  await chain.mine()
  t.strictSame(await prove(back), { status: 'not_final' }, 'one block')
  await chain.mine()
  t.strictSame(await prove(back), { status: 'not_final' }, 'two')
  await chain.reorg(2)
  t.match(await prove(back), { status: 'not_found' }, 'gone')
  await chain.setAutomine(true)
  const again = await sendUsdc(chain, seller, buyer, 10_000n)
  await chain.mine(2)
  t.match(await prove(again), { status: 'proved' })
})

t.test(
  'what is not found comes with the head of a node that knows the sale, and every node is asked',
  async (t) => {
    const { chain, rpc, seller, buyer, prove } = await sold(t)
    const unknown = `0x${'ab'.repeat(32)}`
    const { timestamp } = await chain.rpc<{ timestamp: string }>('eth_getBlockByNumber', 'latest', false)
    t.strictSame(await prove(unknown), { status: 'not_found', headMs: 1_000 * Number(timestamp) })
    const elsewhere = { saleTransaction: `0x${'cd'.repeat(32)}` }
    t.strictSame(await prove(unknown, elsewhere), { status: 'not_found' }, 'it has forgotten the sale, too')
    rpc.add('eth_getBlockByNumber', { kind: 'result', result: null })
    t.strictSame(await prove(unknown), { status: 'not_found' }, 'no head')
    rpc.clear()

    const forgetful = await startFaultyRpc(chain.rpcUrl)
    t.teardown(forgetful.close)
    forgetful.add('eth_getTransactionReceipt', { kind: 'result', result: null })
    const back = await sendUsdc(chain, seller, buyer, 10_000n)
    const second = createEvmRefundProofs(openNodes({ network, rpcUrls: [forgetful.url, rpc.url] }))
    const expected = { asset: usdc.address, from: seller, to: buyer, amountAtomic: 10_000n }
    const found = (transaction: string) =>
      second.prove({ network, ...expected, transaction, saleTransaction: back })
    t.strictSame(await found(back), { status: 'not_final' }, 'the second node has it')
    t.match(await found(unknown), { status: 'not_found', headMs: Number })
    rpc.add('*', { kind: 'refuse' })
    t.strictSame(await found(back), { status: 'not_found' }, 'nothing is certain without the second one')
  },
)

t.test('a transfer that was made before the sale is none of its refund', async (t) => {
  const { chain, rpc, seller, buyer, sale, prove } = await sold(t)
  const later = await sendUsdc(chain, seller, buyer, 10_000n)
  t.match(await prove(later), { status: 'proved' })
  t.strictSame(await prove(later, { saleTransaction: await sendUsdc(chain, buyer, seller, 1n) }), {
    status: 'mismatch',
    what: 'order',
  })
  t.match(await prove(later, { saleTransaction: `0x${'cd'.repeat(32)}` }), {
    status: 'unavailable',
    message: /do not have the sale/,
  })
  rpc.add('eth_getTransactionReceipt', { kind: 'result', result: { transactionHash: sale, logs: [] } })
  t.match(await prove(later), { status: 'not_found' }, 'a node that answers with another receipt')
})

t.test('a node that is away, refuses, lies about its chain or talks nonsense proves nothing', async (t) => {
  const { chain, rpc, seller, buyer, prove } = await sold(t)
  const back = await sendUsdc(chain, seller, buyer, 10_000n)
  const spoiled = (part: object) =>
    ({ kind: 'result', result: (real: unknown) => ({ ...(real as object), ...part }) }) as const
  const cases = {
    refuse: ['*', { kind: 'refuse' }],
    busy: ['*', { kind: 'http-status', status: 429 }],
    error: ['eth_getTransactionReceipt', { kind: 'error', code: -32000, message: 'no' }],
    'no height': ['eth_blockNumber', { kind: 'result', result: null }],
    'no number': ['eth_blockNumber', { kind: 'result', result: 'latest' }],
    'broken logs': ['eth_getTransactionReceipt', spoiled({ logs: [{}] })],
  } as const
  for (const [name, [method, fault]] of Object.entries(cases)) {
    rpc.add(method, fault)
    t.match(await prove(back), { status: 'unavailable', message: /responds now/ }, name)
    rpc.clear()
    t.match(await prove(back), { status: 'proved' })
  }
  rpc.add('eth_getTransactionReceipt', spoiled({ blockNumber: null }))
  t.match(await prove(back), { status: 'not_found' }, 'no block has it yet')
  rpc.clear()
  const elsewhere = createEvmRefundProofs(openNodes({ network: 'eip155:8453', rpcUrls: [rpc.url] }))
  t.match(
    await elsewhere.prove({
      network: 'eip155:8453',
      asset: usdc.address,
      from: seller,
      to: buyer,
      amountAtomic: 1n,
      transaction: back,
      saleTransaction: back,
    }),
    { status: 'unavailable' },
    'another chain’s transaction says nothing here',
  )
})
