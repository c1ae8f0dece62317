import t, { type Test } from 'tap'
import { type Address, encodeFunctionData, multicall3Abi } from 'viem'
import { BATCH_SETTLEMENT_ADDRESS } from '../../../../core/domain/channelHashes.ts'
import type { FoundTransfer, WantedTransfer } from '../../../../core/ports/chains/transferProofs.ts'
import { exactTerms, signPermit } from '../../../../test/helpers/chains/evm/permit2.ts'
import {
  network,
  newAccount,
  remember,
  startSettler,
  usdc,
} from '../../../../test/helpers/chains/evm/settler.ts'
import { sendFrom, sendUsdc, transferCall } from '../../../../test/helpers/localnet/sendToken.ts'
import { readSigned } from '../check/signedPayment.ts'
import { payCall } from '../check/transferCalls.ts'
import { type EvmProofsOptions, openNodes } from '../rpc/nodes.ts'
import { multicall3 } from '../settle/multicall.ts'
import { createEvmTransferProofs } from './transferProofs.ts'

const amountAtomic = 49_990_000n

/** A seller who waits for exactly 49.99 USDC, and a buyer who has 1,000. */
async function shop(t: Test, options: Partial<EvmProofsOptions> = {}) {
  const fixture = await startSettler(t)
  const { chain, rpc } = fixture
  const [seller, buyer] = [newAccount().address, newAccount().address]
  await chain.mintUsdc(buyer, 1_000_000_000n)
  const { timestamp } = await chain.rpc<{ timestamp: string }>('eth_getBlockByNumber', 'latest', false)
  const beganAtMs = 1_000 * Number(timestamp)
  const wanted: WantedTransfer = {
    network,
    asset: usdc.address,
    payTo: seller,
    amountAtomic,
    notBeforeMs: beganAtMs,
  }
  const proofs = createEvmTransferProofs(openNodes({ network, rpcUrls: [rpc.url], ...options }))
  return {
    ...fixture,
    x402Pay: fixture.pay,
    x402Buyer: fixture.buyer,
    seller,
    buyer,
    wanted,
    beganAtMs,
    prove: (transaction: string, more: Partial<WantedTransfer> = {}) =>
      proofs.prove({ ...wanted, ...more }, transaction),
    find: (more: Partial<WantedTransfer> = {}) => proofs.find({ ...wanted, ...more }),
    pay: (amount = amountAtomic, to: Address = seller) => sendUsdc(chain, buyer, to, amount),
  }
}

const foundIn = (verdict: object) => (verdict as { transfers: readonly FoundTransfer[] }).transfers
const mismatch = (what: string) => ({ status: 'mismatch', what })

t.test(
  'a plain transfer of exactly the amount is found, named or not, and is the same both times',
  async (t) => {
    const { chain, buyer, wanted, pay, prove, find: verdictOf } = await shop(t)
    t.strictSame(await verdictOf(), { status: 'none', isComplete: true })
    const transaction = await pay()
    const verdict = await prove(transaction)
    t.match(verdict, {
      status: 'found',
      transfers: [
        {
          key: /^[0-9a-f]{64}$/,
          nonce: `${transaction}:0`,
          transaction,
          event: 'transfer:0',
          from: buyer,
          amountAtomic,
          block: Number(await chain.blockNumber()),
        },
      ],
    })
    t.ok(foundIn(verdict)[0]!.atMs >= wanted.notBeforeMs)
    t.strictSame(await verdictOf(), verdict)
    await pay()
    const both = foundIn(await verdictOf())
    t.equal(new Set(both.map(({ key }) => key)).size, 2, 'each transfer is its own')
    t.strictSame(both[0], foundIn(verdict)[0], 'the older one comes first')
  },
)

t.test(
  'a transfer that no reorganisation reaches is read once, however often it is looked for',
  async (t) => {
    const { chain, rpc, wanted, beganAtMs, pay, find: verdictOf } = await shop(t)
    const old = await pay()
    await chain.mine(150)
    const verdict = await verdictOf()
    t.match(verdict, { status: 'found', transfers: [{ transaction: old }] })
    rpc.resetCounters()
    t.strictSame(await verdictOf(), verdict)
    t.equal(rpc.calls('eth_getTransactionReceipt'), 0)
    const later = { notBeforeMs: beganAtMs + 3_600_000 }
    t.match(await verdictOf(later), { status: 'none' }, 'what is older than the session is none of its')
    const young = await pay()
    for (let i = 0; i < 2; i++)
      t.match(await verdictOf(), {
        status: 'found',
        transfers: [{ transaction: old }, { transaction: young }],
      })
    t.equal(rpc.calls('eth_getTransactionReceipt'), 2, 'what may be taken back is read anew')
    t.match(await verdictOf({ amountAtomic: wanted.amountAtomic + 1n }), { status: 'none' })
  },
)

t.test('what is not this transfer is not taken for it, and the verdict says what differs', async (t) => {
  const { chain, seller, buyer, pay, prove, find: verdictOf, beganAtMs } = await shop(t)
  const less = await pay(amountAtomic - 1n)
  t.strictSame(await prove(less), { ...mismatch('amount'), movedAtomic: amountAtomic - 1n })
  t.match(await prove(await pay(amountAtomic + 1n)), mismatch('amount'))
  t.strictSame(await prove(await pay(amountAtomic, newAccount().address)), mismatch('recipient'))
  t.strictSame(await prove(await sendFrom(chain, buyer, seller, '0x')), mismatch('asset'))
  const otherToken = `0x${'7e'.repeat(20)}`
  t.strictSame(await prove(await pay(1n), { asset: otherToken }), mismatch('asset'))
  t.strictSame(await prove(await pay(9_000_000_000n)), mismatch('failed'))
  await chain.mintUsdc(seller, amountAtomic)
  const toItself = await sendUsdc(chain, seller, seller, amountAtomic)
  t.strictSame(await prove(toItself), mismatch('sender'))
  t.match(await verdictOf(), { status: 'none' }, 'none of them is found without a name either')

  const good = await pay()
  const later = { notBeforeMs: beganAtMs + 3_600_000 }
  const early = { ...mismatch('time'), atMs: Number }
  t.match(await prove(good, later), early, 'before the session began')
  t.match(await verdictOf(later), { status: 'none' })
  t.match(await prove(`0x${'ab'.repeat(32)}`), {
    status: 'pending',
    transaction: `0x${'ab'.repeat(32)}`,
    isKnown: false,
    seenUpTo: Number,
  })
})

t.test('a payment by Permit2 and the payout of channels are no plain transfers', async (t) => {
  const { chain, seller, prove, find: verdictOf, x402Buyer } = await shop(t)
  await chain.allowPermit2(x402Buyer.address)
  await chain.mintUsdc(x402Buyer.address, amountAtomic)
  const terms = { ...exactTerms(String(amountAtomic)), payTo: seller }
  const payment = await signPermit(x402Buyer, terms)
  const read = readSigned(payment)
  if (!read.ok) return t.fail(read.message)
  const [from] = await chain.rpc<[Address]>('eth_accounts')
  const settled = await chain.send({ from, ...payCall(terms.asset, read.authorization, undefined) })
  t.strictSame(await prove(settled), mismatch('x402'))
  const channels = BATCH_SETTLEMENT_ADDRESS as Address
  await chain.mintUsdc(channels, amountAtomic)
  t.strictSame(await prove(await sendUsdc(chain, channels, seller, amountAtomic)), mismatch('x402'))
  t.match(await verdictOf(), { status: 'none' })
})

t.test('transfers inside a contract’s call count, and two in one transaction are two', async (t) => {
  const { chain, seller, prove, find: verdictOf } = await shop(t)
  const wallet = chain.multicall3Address
  await chain.mintUsdc(wallet, 4n * amountAtomic)
  const call = (to: Address, amount: bigint) => ({
    target: chain.usdcAddress,
    allowFailure: true,
    callData: transferCall(to, amount),
  })
  const args = [
    [
      call(newAccount().address, 7n),
      call(seller, amountAtomic),
      // The call fails inside a transaction that succeeds, so nothing moved and there is no event.
      call(seller, 90n * amountAtomic),
      call(seller, amountAtomic),
    ],
  ] as const
  const data = encodeFunctionData({ abi: multicall3Abi, functionName: 'aggregate3', args })
  const bundle = await sendFrom(chain, newAccount().address, multicall3, data)
  const verdict = await prove(bundle)
  t.match(verdict, {
    status: 'found',
    transfers: [
      { event: 'transfer:1', from: wallet },
      { event: 'transfer:2', from: wallet },
    ],
  })
  t.not(foundIn(verdict)[0]!.key, foundIn(verdict)[1]!.key)
  t.strictSame(await verdictOf(), verdict)
})

t.test('an x402 settlement is found as the payment that it is, by its own key and event', async (t) => {
  const { settler, terms, x402Pay, prove } = await shop(t)
  const { payment, identity } = await x402Pay()
  const outcome = await settler.settle(payment, terms, identity, remember([]))
  if (outcome.status !== 'settled') throw new Error(outcome.reason)
  const { key, nonce, payer } = identity
  t.match(await prove(outcome.transaction!, { payTo: terms.payTo, amountAtomic: 10_000n }), {
    status: 'found',
    transfers: [{ key, nonce, from: payer, event: outcome.event, block: outcome.block }],
  })
})

t.test('a transfer counts once it is deep enough, and after a fork it is the same transfer', async (t) => {
  const { chain, seller, pay, prove, find: verdictOf } = await shop(t, { confirmations: 3 })
  const account = newAccount()
  await chain.mintUsdc(account.address, amountAtomic)
  await chain.fundEth(account.address, 10n ** 18n)
  const signed = await account.signTransaction({
    type: 'eip1559',
    chainId: 84532,
    nonce: 0,
    gas: 200_000n,
    to: chain.usdcAddress,
    maxFeePerGas: 10n ** 10n,
    maxPriorityFeePerGas: 10n ** 9n,
    data: transferCall(seller, amountAtomic),
  })
  const send = () => chain.rpc<string>('eth_sendRawTransaction', signed)
  await chain.setAutomine(false)
  const transaction = await send()
  t.match(
    await prove(transaction),
    { status: 'pending', transaction, isKnown: false, seenUpTo: Number },
    'on its way',
  )
  await chain.mine()
  t.strictSame(await prove(transaction), { status: 'pending', transaction, isKnown: true }, 'one block')
  t.strictSame(await verdictOf(), { status: 'pending', transaction, isKnown: true })
  await chain.mine(2)
  const before = foundIn(await prove(transaction))[0]!
  await chain.reorg(3)
  t.match(
    await prove(transaction),
    { status: 'pending', transaction, isKnown: false, seenUpTo: Number },
    'gone',
  )
  t.match(await verdictOf(), { status: 'none' })

  // It comes back behind another one, where its block gives its event another number.
  await pay(3n, newAccount().address)
  await chain.mine()
  const other = await pay(4n, newAccount().address)
  await send()
  await chain.mine(3)
  const indexes = await Promise.all(
    [transaction, other].map(async (hash) => {
      const receipt = await chain.rpc<{ logs: { logIndex: string }[] }>('eth_getTransactionReceipt', hash)
      return Number(receipt.logs[0]!.logIndex)
    }),
  )
  t.strictSame(indexes, [1, 0], 'two events in one block')
  const after = foundIn(await prove(transaction))[0]!
  t.strictSame({ ...after, block: 0, atMs: 0 }, { ...before, block: 0, atMs: 0 })
})

t.test('a slow node is waited for; one that is away, refuses or talks nonsense proves nothing', async (t) => {
  const { rpc, pay, prove, find: verdictOf } = await shop(t)
  const transaction = await pay()
  for (const ms of [40, 100]) {
    rpc.add('*', { kind: 'delay', ms })
    const [named, looked] = await Promise.all([prove(transaction), verdictOf()])
    t.match(named, { status: 'found' })
    t.strictSame(looked, named)
    rpc.clear()
  }
  const spoiled = (part: object) =>
    ({ kind: 'result', result: (real: unknown) => ({ ...(real as object), ...part }) }) as const
  const away = {
    refuse: ['*', { kind: 'refuse' }],
    busy: ['*', { kind: 'http-status', status: 429 }],
    'no height': ['eth_blockNumber', { kind: 'result', result: 'latest' }],
    'no time': ['eth_getBlockByNumber', spoiled({ timestamp: 'now' })],
  } as const
  for (const [name, [method, fault]] of Object.entries(away)) {
    rpc.add(method, fault)
    t.match(await prove(transaction), { status: 'unavailable', message: /responds now/ }, name)
    t.match(await verdictOf(), { status: 'unavailable', message: /responds now/ }, name)
    rpc.clear()
  }
  for (const part of [{ logs: [{}] }, { logs: [{ logIndex: null }] }, { status: '0x01' }]) {
    rpc.add('eth_getTransactionReceipt', spoiled(part))
    t.match(await prove(transaction), { status: 'unavailable', message: /responds now/ }, 'no receipt')
    t.match(await verdictOf(), { status: 'pending', isKnown: true }, 'its event is there')
    rpc.clear()
  }
  rpc.add('eth_getLogs', { kind: 'error', code: -32005, message: 'too many results' })
  t.match(await verdictOf(), { status: 'unavailable' })
  rpc.add('eth_getLogs', { kind: 'result', result: [{}] })
  t.match(await verdictOf(), { status: 'unavailable' })
  rpc.clear()
  const other = await pay(1n)
  rpc.add('eth_getTransactionReceipt', spoiled({ transactionHash: other }))
  t.match(await prove(transaction), { status: 'pending' }, 'the receipt of another transaction')
  t.match(await verdictOf(), { status: 'pending' })
  rpc.clear()
  rpc.add('eth_getBlockByNumber', spoiled({ hash: `0x${'11'.repeat(32)}` }))
  t.match(await prove(transaction), { status: 'pending' }, 'the block of another fork')
  rpc.clear()
  rpc.add('eth_chainId', { kind: 'result', result: '0x1' })
  const fresh = createEvmTransferProofs(openNodes({ network: 'eip155:8453', rpcUrls: [rpc.url] }))
  const elsewhere = {
    network: 'eip155:8453',
    asset: usdc.address,
    payTo: usdc.address,
    amountAtomic,
  } as const
  t.match(
    await fresh.find({ ...elsewhere, notBeforeMs: 0 }),
    { status: 'unavailable' },
    'another chain’s node',
  )
})

t.test('a look reads a bounded number of blocks, and says when that was not all', async (t) => {
  const { rpc, find: verdictOf, beganAtMs } = await shop(t)
  const respond = (method: string, result: unknown) => rpc.add(method, { kind: 'result', result })
  respond('eth_blockNumber', '0x186a0')
  respond('eth_getLogs', [])
  respond('eth_getBlockByNumber', { timestamp: `0x${(beganAtMs / 1_000 + 60).toString(16)}` })
  rpc.resetCounters()
  t.strictSame(await verdictOf(), { status: 'none', isComplete: false })
  t.equal(rpc.calls('eth_getLogs'), 20)
  rpc.resetCounters()
  t.strictSame(await verdictOf({ notBeforeMs: beganAtMs + 61_000 }), { status: 'none', isComplete: true })
  t.equal(rpc.calls('eth_getLogs'), 3, 'and no more than the time asks for')
})

t.test('a look judges a bounded number of transactions, and says when there were more', async (t) => {
  const { rpc, pay, find: verdictOf, beganAtMs } = await shop(t)
  await pay(amountAtomic - 1n)
  const spam = (real: unknown) => {
    const [log] = real as { data: string }[]
    const data = `0x${amountAtomic.toString(16).padStart(64, '0')}`
    const hashOf = (i: number) => `0x${i.toString(16).padStart(64, '0')}`
    return Array.from({ length: 60 }, (_, i) => ({ ...log, data, transactionHash: hashOf(i) }))
  }
  const lift = rpc.add('eth_getLogs', { kind: 'result', result: spam })
  rpc.resetCounters()
  t.match(await verdictOf(), { status: 'pending' }, 'events whose receipts no node has')
  t.equal(rpc.calls('eth_getTransactionReceipt'), 50)
  lift()
  t.strictSame(await verdictOf(), { status: 'none', isComplete: true })
  t.match(await verdictOf({ notBeforeMs: beganAtMs }), { status: 'none' })
})
