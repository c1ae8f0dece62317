import { Keypair } from '@solana/web3.js'
import t, { type Test } from 'tap'
import type { Asset } from '../../../../core/domain/asset.ts'
import { tokenProgramAddress } from '../../../../core/solana/addresses.ts'
import {
  addressOf,
  dollar2022,
  network,
  realPayment,
  termsOf,
  usdc,
} from '../../../../test/helpers/chains/solana/payments.ts'
import { setStage } from '../../../../test/helpers/chains/solana/stage.ts'
import {
  sendSolana,
  type TokenTransfer,
  type TransferForm,
  transferInstruction,
} from '../../../../test/helpers/localnet/sendToken.ts'
import type { SolanaProofsOptions } from '../rpc/nodes.ts'
import { createSolanaRefundProofs } from './refundProofs.ts'

/** A sale that was settled, and a seller with enough money to refund it. The test advances the chain. */
async function sold(t: Test, asset: Asset = usdc, options: Partial<SolanaProofsOptions> = {}) {
  const stage = await setStage()
  t.teardown(stage.close)
  const { chain, rpc, cast } = stage
  const { outcome } = await stage.settle(await stage.pay(asset))
  if (outcome.status !== 'settled') throw new Error(outcome.reason)
  const sale = outcome.transaction!
  const [seller, buyer] = [addressOf(cast.seller), addressOf(cast.payer)]
  chain.mintToken(asset.address, seller, 1_000_000n)
  chain.advanceSlots(1)
  const proofs = createSolanaRefundProofs({ network, rpcUrls: [rpc.url], ...options })
  const prove = (transaction: string, more: object = {}) =>
    proofs.prove({
      network,
      asset: asset.address,
      from: seller,
      to: buyer,
      amountAtomic: 10_000n,
      transaction,
      saleTransaction: sale,
      ...more,
    })
  const program = tokenProgramAddress[asset.program!]
  const moving = (move: Partial<TokenTransfer>, form?: TransferForm) =>
    transferInstruction(
      chain,
      program,
      { from: seller, to: buyer, amountAtomic: 10_000n, mint: asset.address, ...move },
      form,
    )
  /** Sends transfers, by default one from the seller to the buyer, signed by the seller. */
  const send = (moves: Partial<TokenTransfer>[] = [{}], signers: [Keypair, ...Keypair[]] = [cast.seller]) =>
    sendSolana(
      chain,
      signers,
      moves.map((move) => moving(move)),
    )
  return { ...stage, seller, buyer, sale, prove, send, moving }
}

for (const asset of [usdc, dollar2022]) {
  t.test(`a transfer of ${asset.symbol} back is proved, in every form that wallets use`, async (t) => {
    const { chain, cast, send, prove, moving } = await sold(t, asset)
    t.match(await prove(await send()), { status: 'proved', paymentKeys: [/^[0-9a-f]{64}$/] })
    t.match(await prove(await send([{ amountAtomic: 4_000n }, { amountAtomic: 6_000n }])), {
      status: 'proved',
    })
    const plain = await sendSolana(chain, [cast.seller], [moving({}, 'transfer')])
    t.match(await prove(plain), { status: 'proved' }, 'Transfer, which names no mint')
    const sponsored = await send([{}], [Keypair.generate(), cast.seller])
    t.match(await prove(sponsored), { status: 'proved' }, 'somebody else pays the fee')
  })
}

t.test('what is not the seller’s transfer to the buyer of that much proves nothing', async (t) => {
  const { chain, cast, seller, buyer, sale, send, prove } = await sold(t)
  const stranger = Keypair.generate()
  chain.mintUsdc(addressOf(stranger), 100_000n)
  chain.mintToken(dollar2022.address, seller, 100_000n)
  const mismatch = async (what: string, transaction: string) =>
    t.strictSame(await prove(transaction), { status: 'mismatch', what })

  await mismatch('amount', await send([{ amountAtomic: 9_999n }]))
  await mismatch('recipient', await send([{ to: addressOf(stranger) }]))
  await mismatch('recipient', await send([{ from: buyer, to: seller }], [cast.payer]))
  await mismatch('sender', await send([{ from: addressOf(stranger) }], [stranger]))
  const partly = [{ amountAtomic: 9_999n }, { from: addressOf(stranger), amountAtomic: 1n }]
  await mismatch('amount', await send(partly, [cast.seller, stranger]))
  const forthAndBack = [{}, { from: buyer, to: seller, amountAtomic: 1n }]
  await mismatch('amount', await send(forthAndBack, [cast.seller, cast.payer]))
  // The seller pays a stranger and another account pays the buyer: both balances match, but the buyer was not refunded.
  const crossed = [{ to: addressOf(stranger) }, { from: addressOf(stranger), to: buyer }]
  await mismatch('sender', await send(crossed, [cast.seller, stranger]))
  await mismatch('recipient', sale)
  const other = transferInstruction(chain, tokenProgramAddress['token-2022'], {
    from: seller,
    to: buyer,
    amountAtomic: 10_000n,
    mint: dollar2022.address,
  })
  await mismatch('asset', await sendSolana(chain, [cast.seller], [other]))
  await mismatch('asset', chain.airdrop(buyer, 10_000n))

  const tooMuch = await send([{ amountAtomic: 50_000_000n }])
  t.strictSame(await prove(tooMuch), { status: 'reverted' })
})

t.test('a transfer counts once it is as final as a payment must be, and a fork takes it back', async (t) => {
  const { chain, send, prove } = await sold(t, usdc, { commitment: 'finalized' })
  chain.hold()
  const held = await send()
  t.match(await prove(held), { status: 'not_found' }, 'on its way')
  chain.release()
  t.strictSame(await prove(held), { status: 'not_final' })
  chain.rollBack(1)
  t.match(await prove(held), { status: 'not_found', headMs: Number }, 'gone')
  const again = await send()
  t.strictSame(await prove(again), { status: 'not_final' })
  chain.advanceSlots(40)
  t.match(await prove(again), { status: 'proved' })
})

t.test('a transfer that was made before the sale is none of its refund', async (t) => {
  const { chain, send, prove, sale } = await sold(t)
  const back = await send()
  chain.advanceSlots(1)
  const later = await send([{ amountAtomic: 1n }])
  t.match(await prove(back), { status: 'proved' })
  t.strictSame(await prove(back, { saleTransaction: later }), { status: 'mismatch', what: 'order' })
  t.strictSame(await prove(back, { saleTransaction: back }), { status: 'mismatch', what: 'order' })
  const unknown = sale.slice(0, -4) + (sale.endsWith('1111') ? '2222' : '1111')
  t.match(await prove(back, { saleTransaction: unknown }), { status: 'unavailable', message: /sale/ })
  t.match(await prove(unknown), { status: 'not_found' })
})

t.test('a payment that the seller makes to the buyer is named by its key', async (t) => {
  const { chain, cast, buyer, settler, prove } = await sold(t)
  chain.createAta(buyer)
  const terms = { ...termsOf(cast, usdc), payTo: buyer }
  const payment = await realPayment(cast.seller, terms, chain.rpcUrl)
  const checked = await settler.check(payment, terms)
  if (!checked.ok) throw new Error(checked.message)
  const outcome = await settler.settle(payment, terms, checked.identity, async () => true)
  t.equal(outcome.status, 'settled')
  const { transaction } = outcome as { transaction: string }
  t.strictSame(await prove(transaction), { status: 'proved', paymentKeys: [checked.identity.key] })
})

t.test('a node that is away, refuses, lies about its cluster or talks nonsense proves nothing', async (t) => {
  const { rpc, send, prove } = await sold(t)
  const [back, other] = [await send(), await send([{ amountAtomic: 2n }])]
  const landed = (change: (real: { meta: object }) => object) =>
    ({ kind: 'result', result: (real: unknown) => change(real as { meta: object }) }) as const
  const cases = {
    refuse: ['*', { kind: 'refuse' }],
    busy: ['*', { kind: 'http-status', status: 429 }],
    error: ['getSignatureStatuses', { kind: 'error', code: -32602, message: 'no' }],
    'no transaction': ['getTransaction', { kind: 'error', code: -32015, message: 'version' }],
    'no answer': ['getSignatureStatuses', { kind: 'result', result: null }],
    'no meta': ['getTransaction', landed((real) => ({ ...real, meta: null }))],
    'no bytes': ['getTransaction', landed((real) => ({ ...real, transaction: ['', 'base64'] }))],
    'broken balances': [
      'getTransaction',
      landed((real) => ({
        ...real,
        meta: { ...real.meta, postTokenBalances: [{}], innerInstructions: 7 },
      })),
    ],
  } as const
  for (const [name, [method, fault]] of Object.entries(cases)) {
    rpc.add(method, fault)
    t.match(await prove(back), { status: 'unavailable', message: /\S/ }, name)
    rpc.clear()
    t.match(await prove(back), { status: 'proved' })
  }
  rpc.add('getTransaction', { kind: 'result', result: null })
  t.strictSame(await prove(back), { status: 'not_final' }, 'a node that is behind')
  rpc.clear()
  rpc.add('getTransaction', { kind: 'stale' })
  t.match(await prove(back), { status: 'proved' })
  t.match(await prove(other), { status: 'unavailable' }, 'a node that answers with another transaction')
  rpc.clear()
  rpc.add('getGenesisHash', { kind: 'result', result: '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d' })
  const fresh = createSolanaRefundProofs({ network, rpcUrls: [rpc.url] })
  t.match(
    await fresh.prove({
      network,
      asset: usdc.address,
      from: back,
      to: back,
      amountAtomic: 1n,
      transaction: back,
      saleTransaction: other,
    }),
    { status: 'unavailable' },
  )
})
