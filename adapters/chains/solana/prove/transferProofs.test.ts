import { Keypair } from '@solana/web3.js'
import t, { type Test } from 'tap'
import type { Asset } from '../../../../core/domain/asset.ts'
import type { FoundTransfer, WantedTransfer } from '../../../../core/ports/chains/transferProofs.ts'
import { tokenProgramAddress } from '../../../../core/solana/addresses.ts'
import { addressOf, dollar2022, network, usdc } from '../../../../test/helpers/chains/solana/payments.ts'
import { setStage } from '../../../../test/helpers/chains/solana/stage.ts'
import {
  sendSolana,
  type TokenTransfer,
  type TransferForm,
  transferInstruction,
} from '../../../../test/helpers/localnet/sendToken.ts'
import type { SolanaProofsOptions } from '../rpc/nodes.ts'
import { createSolanaTransferProofs } from './transferProofs.ts'

const amountAtomic = 49_990n

/** A seller who waits for exactly that transfer, and a buyer with enough money. The test advances the chain. */
async function shop(t: Test, asset: Asset = usdc, options: Partial<SolanaProofsOptions> = {}) {
  const stage = await setStage()
  t.teardown(stage.close)
  const { chain, rpc, cast } = stage
  const [seller, buyer] = [addressOf(cast.seller), addressOf(cast.payer)]
  const beganAtMs = 1_000 * Math.floor(Date.now() / 1_000)
  // Its block has its time from now.
  chain.advanceSlots(1)
  const wanted: WantedTransfer = {
    network,
    asset: asset.address,
    payTo: seller,
    amountAtomic,
    notBeforeMs: beganAtMs,
  }
  const proofs = createSolanaTransferProofs({ network, rpcUrls: [rpc.url], ...options })
  const moving = (move: Partial<TokenTransfer>, form?: TransferForm, of: Asset = asset) =>
    transferInstruction(
      chain,
      tokenProgramAddress[of.program!],
      { from: buyer, to: seller, amountAtomic, mint: of.address, ...move },
      form,
    )
  const send = (moves: Partial<TokenTransfer>[] = [{}], signers: [Keypair, ...Keypair[]] = [cast.payer]) =>
    sendSolana(
      chain,
      signers,
      moves.map((move) => moving(move)),
    )
  return {
    ...stage,
    seller,
    buyer,
    wanted,
    beganAtMs,
    moving,
    send,
    prove: (transaction: string, more: Partial<WantedTransfer> = {}) =>
      proofs.prove({ ...wanted, ...more }, transaction),
    find: (more: Partial<WantedTransfer> = {}) => proofs.find({ ...wanted, ...more }),
  }
}

const foundIn = (verdict: object) => (verdict as { transfers: readonly FoundTransfer[] }).transfers
const mismatch = (what: string) => ({ status: 'mismatch', what })

for (const asset of [usdc, dollar2022]) {
  t.test(`a transfer of exactly the amount of ${asset.symbol} is found, named or not`, async (t) => {
    const { chain, cast, buyer, beganAtMs, moving, send, prove, find: verdictOf } = await shop(t, asset)
    t.strictSame(await verdictOf(), { status: 'none', isComplete: true })
    const transaction = await send()
    const verdict = await prove(transaction)
    t.match(verdict, {
      status: 'found',
      transfers: [
        {
          key: /^[0-9a-f]{64}$/,
          nonce: /^[0-9a-f]{64}$/,
          transaction,
          event: '0',
          from: buyer,
          amountAtomic,
          block: chain.slot(),
        },
      ],
    })
    t.ok(foundIn(verdict)[0]!.atMs >= beganAtMs)
    t.strictSame(await verdictOf(), verdict)
    chain.advanceSlots(1)
    const plain = await sendSolana(chain, [cast.payer], [moving({}, 'transfer')])
    t.match(await prove(plain), { status: 'found' }, 'Transfer, which names no mint')
    const sponsored = await send([{}], [Keypair.generate(), cast.payer])
    t.match(await prove(sponsored), { status: 'found', transfers: [{ from: buyer }] }, 'who sent the money')
    t.equal(foundIn(await verdictOf()).length, 3)
  })
}

t.test('what is not this transfer is not taken for it, and the verdict says what differs', async (t) => {
  const { chain, cast, seller, buyer, beganAtMs, moving, send, prove, find: verdictOf } = await shop(t)
  const stranger = addressOf(Keypair.generate())
  chain.createAta(stranger)
  chain.mintToken(dollar2022.address, buyer, 10n * amountAtomic)
  t.strictSame(await prove(await send([{ amountAtomic: amountAtomic - 1n }])), {
    ...mismatch('amount'),
    movedAtomic: amountAtomic - 1n,
  })
  t.match(await prove(await send([{ amountAtomic: amountAtomic + 1n }])), mismatch('amount'))
  t.strictSame(await prove(await send([{ to: stranger }])), mismatch('recipient'))
  const otherToken = await sendSolana(chain, [cast.payer], [moving({}, undefined, dollar2022)])
  t.strictSame(await prove(otherToken), mismatch('asset'))
  t.strictSame(await prove(chain.airdrop(seller, 10_000_000n)), mismatch('asset'))
  t.strictSame(await prove(await send([{ amountAtomic: 1_000_000_000n }])), mismatch('failed'))
  chain.mintUsdc(seller, amountAtomic)
  t.strictSame(await prove(await send([{ from: seller }], [cast.seller])), mismatch('sender'))
  t.strictSame(await verdictOf(), { status: 'none', isComplete: true })

  const good = await send()
  const later = { notBeforeMs: beganAtMs + 3_600_000 }
  const early = { ...mismatch('time'), atMs: Number }
  t.match(await prove(good, later), early, 'before the session began')
  t.match(await verdictOf(later), { status: 'none' })
  const unknown = good.slice(0, -4) + (good.endsWith('1111') ? '2222' : '1111')
  t.match(await prove(unknown), { status: 'pending', transaction: unknown, isKnown: false, seenUpTo: Number })
})

t.test('each transfer of a transaction is its own, whomever the others pay', async (t) => {
  const { chain, send, prove, find: verdictOf } = await shop(t)
  const other = addressOf(Keypair.generate())
  chain.createAta(other)
  const transaction = await send([{ to: other }, {}, { amountAtomic: 7n }, {}])
  const verdict = await prove(transaction)
  t.match(verdict, { status: 'found', transfers: [{ event: 'transfer:1' }, { event: 'transfer:3' }] })
  const elsewhere = await prove(transaction, { payTo: other })
  t.match(elsewhere, { status: 'found', transfers: [{ event: 'transfer:0' }] })
  const keys = [...foundIn(verdict), ...foundIn(elsewhere)].map(({ key }) => key)
  t.equal(new Set(keys).size, 3)
  t.strictSame(await verdictOf(), verdict)
})

t.test('an x402 settlement is found as the payment that it is, by its own key and event', async (t) => {
  const stage = await shop(t)
  const { payment: _, identity, ...rest } = await stage.pay()
  const { outcome } = await stage.settle({ payment: _, identity, ...rest })
  if (outcome.status !== 'settled') throw new Error(outcome.reason)
  const { key, nonce, payer } = identity
  t.match(await stage.prove(outcome.transaction!, { amountAtomic: identity.amountAtomic }), {
    status: 'found',
    transfers: [{ key, nonce, from: payer, event: outcome.event, block: outcome.block }],
  })
})

t.test('a transfer counts once it is as final as a payment must be, and a fork takes it back', async (t) => {
  const { chain, send, prove, find: verdictOf } = await shop(t, usdc, { commitment: 'finalized' })
  chain.hold()
  const transaction = await send()
  t.match(
    await prove(transaction),
    { status: 'pending', transaction, isKnown: false, seenUpTo: Number },
    'on its way',
  )
  chain.release()
  t.strictSame(await prove(transaction), { status: 'pending', transaction, isKnown: true })
  t.strictSame(await verdictOf(), { status: 'pending', transaction, isKnown: true })
  chain.rollBack(1)
  t.match(
    await prove(transaction),
    { status: 'pending', transaction, isKnown: false, seenUpTo: Number },
    'gone',
  )
  t.match(await verdictOf(), { status: 'none' })
  const again = await send()
  chain.advanceSlots(40)
  t.match(await prove(again), { status: 'found' })
  t.match(await verdictOf(), { status: 'found', transfers: [{ transaction: again }] })
})

t.test('a slow node is waited for; one that is away, refuses or talks nonsense proves nothing', async (t) => {
  const { rpc, send, prove, find: verdictOf } = await shop(t)
  const transaction = await send()
  for (const ms of [40, 100]) {
    rpc.add('*', { kind: 'delay', ms })
    const [named, looked] = await Promise.all([prove(transaction), verdictOf()])
    t.match(named, { status: 'found' })
    t.strictSame(looked, named)
    rpc.clear()
  }
  const landed = (change: (real: { meta: object }) => object) =>
    ({ kind: 'result', result: (real: unknown) => change(real as { meta: object }) }) as const
  const cases = {
    refuse: ['*', { kind: 'refuse' }],
    busy: ['*', { kind: 'http-status', status: 429 }],
    'no transaction': ['getTransaction', { kind: 'error', code: -32015, message: 'version' }],
    'no meta': ['getTransaction', landed((real) => ({ ...real, meta: null }))],
    'no time': ['getTransaction', landed((real) => ({ ...real, blockTime: null }))],
    'no bytes': ['getTransaction', landed((real) => ({ ...real, transaction: ['', 'base64'] }))],
    'broken balances': [
      'getTransaction',
      landed((real) => ({ ...real, meta: { ...real.meta, postTokenBalances: [{}], innerInstructions: 7 } })),
    ],
    failed: ['getTransaction', landed((real) => ({ ...real, meta: { ...real.meta, err: 'no' } }))],
  } as const
  for (const [name, [method, fault]] of Object.entries(cases)) {
    rpc.add(method, fault)
    t.match(await prove(transaction), { status: 'unavailable', message: /responds now/ }, name)
    t.match(await verdictOf(), { status: 'unavailable', message: /responds now/ }, name)
    rpc.clear()
  }
  const other = await send([{ amountAtomic: 2n }])
  rpc.add('getTransaction', { kind: 'error', code: -32015, message: 'version' }, 1)
  t.match(
    await verdictOf(),
    { status: 'found', transfers: [{ transaction }] },
    'an odd one hides no other one',
  )
  rpc.clear()
  rpc.add('getTransaction', { kind: 'stale' })
  t.match(await prove(transaction), { status: 'found' })
  t.match(await prove(other), { status: 'unavailable' }, 'a node that answers with another transaction')
  rpc.clear()
  rpc.add('getTransaction', { kind: 'result', result: null })
  t.match(await prove(transaction), { status: 'pending' }, 'a node that is behind')
})

t.test(
  'balances that the instructions do not explain pay nothing: a fee was kept, or a node lies',
  async (t) => {
    const { rpc, send, prove } = await shop(t)
    const transaction = await send()
    const withPost = (amount: string) => (real: unknown) => {
      const { meta, ...rest } = real as { meta: { postTokenBalances: { uiTokenAmount: object }[] } }
      const postTokenBalances = meta.postTokenBalances.map((one) => ({
        ...one,
        uiTokenAmount: { ...one.uiTokenAmount, amount },
      }))
      return { ...rest, meta: { ...meta, postTokenBalances } }
    }
    rpc.add('getTransaction', { kind: 'result', result: withPost('49989') })
    t.strictSame(await prove(transaction), { ...mismatch('amount'), movedAtomic: 49_989n })
  },
)

t.test('a look reads a bounded number of transactions, and says when there were more', async (t) => {
  const { rpc, send, find: verdictOf } = await shop(t)
  await send([{ amountAtomic: 1n }])
  const many = (real: unknown) => Array.from({ length: 1_000 }, () => (real as object[])[0])
  rpc.add('getSignaturesForAddress', { kind: 'result', result: many }, 1)
  rpc.resetCounters()
  t.strictSame(await verdictOf(), { status: 'none', isComplete: false })
  t.equal(rpc.calls('getTransaction'), 100)
})

t.test('what a final transaction did is read once, however often its payee is looked at', async (t) => {
  const { chain, rpc, send, find: verdictOf } = await shop(t)
  for (const dust of [1n, 2n, 3n]) await send([{ amountAtomic: dust }])
  const paid = await send()
  chain.advanceSlots(40)
  const verdict = await verdictOf()
  t.match(verdict, { status: 'found', transfers: [{ transaction: paid }] })
  rpc.resetCounters()
  t.strictSame(await verdictOf(), verdict)
  t.match(
    await verdictOf({ amountAtomic: 7n }),
    { status: 'none', isComplete: true },
    'for another amount, too',
  )
  t.equal(rpc.calls('getTransaction'), 0)
  t.match(await verdictOf({ amountAtomic: 2n }), { status: 'found' })
  const late = { notBeforeMs: Date.now() + 3_600_000 }
  t.match(await verdictOf(late), { status: 'none' }, 'what is older than the session is none of its')
  t.equal(rpc.calls('getTransaction'), 1, 'the one that fits')
  await send()
  await verdictOf()
  await verdictOf()
  t.equal(rpc.calls('getTransaction'), 3, 'what a fork may take back is read anew')
})

t.test('a look goes on where the one before had read enough', async (t) => {
  const { chain, rpc, send, find: verdictOf } = await shop(t)
  const paid = await send()
  chain.advanceSlots(1)
  await send([{ amountAtomic: 1n }])
  chain.advanceSlots(40)
  const many = (real: unknown) => {
    const [dust, first] = real as object[]
    return dust === undefined ? [] : [...Array(100).fill(dust), first]
  }
  rpc.add('getSignaturesForAddress', { kind: 'result', result: many })
  rpc.resetCounters()
  const more = { status: 'pending', transaction: null, isKnown: true }
  t.strictSame(await verdictOf(), more, 'who asks again is told more')
  t.equal(rpc.calls('getTransaction'), 100)
  t.match(await verdictOf(), { status: 'found', transfers: [{ transaction: paid }] })
})
