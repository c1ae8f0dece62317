import { type Keypair, VersionedTransaction } from '@solana/web3.js'
import t, { type Test } from 'tap'
import type { Asset } from '../../../../core/domain/asset.ts'
import { buildSolanaTransfer } from '../../../../core/x402/solanaPayment.ts'
import { createJsonRpcClient } from '../../../../localnet/jsonRpcClient.ts'
import { addressOf, dollar2022, network, usdc } from '../../../../test/helpers/chains/solana/payments.ts'
import { price, setStage } from '../../../../test/helpers/chains/solana/stage.ts'
import { createSolanaPayers } from '../check/payers.ts'
import { createSolanaRefundProofs } from './refundProofs.ts'

const owned = 30_000n

/** A sale that was settled on the real token program, and the seller's wallet, which sends what the dashboard builds. */
async function sold(t: Test, asset: Asset) {
  const stage = await setStage()
  t.teardown(stage.close)
  const { chain, rpc, cast } = stage
  const { outcome } = await stage.settle(await stage.pay(asset))
  if (outcome.status !== 'settled') throw new Error(outcome.reason)
  const [seller, buyer] = [addressOf(cast.seller), addressOf(cast.payer)]
  chain.mintToken(asset.address, seller, owned)
  chain.airdrop(seller, 10_000_000n)
  chain.advanceSlots(1)
  const payers = createSolanaPayers({ network, rpcUrls: [rpc.url] })
  const proofs = createSolanaRefundProofs({ network, rpcUrls: [rpc.url] })
  const build = async (change: Partial<Asset> = {}, amountAtomic = price, payTo = buyer) => {
    const { recentBlockhash } = (await payers.read(asset, seller))!
    return buildSolanaTransfer(
      { asset: { ...asset, ...change }, amountAtomic, payTo },
      seller,
      recentBlockhash,
    )
  }
  return {
    chain,
    cast,
    seller,
    buyer,
    build,
    /** As a wallet does: signed, and simulated by its node before it is sent. */
    async send(unsigned: Uint8Array, key: Keypair = cast.seller): Promise<string> {
      const transaction = VersionedTransaction.deserialize(unsigned)
      transaction.sign([key])
      const base64 = Buffer.from(transaction.serialize()).toString('base64')
      return createJsonRpcClient(chain.rpcUrl)('sendTransaction', base64, { encoding: 'base64' })
    },
    prove: (transaction: string) =>
      proofs.prove({
        network,
        asset: asset.address,
        from: seller,
        to: buyer,
        amountAtomic: price,
        transaction,
        saleTransaction: outcome.transaction!,
      }),
    balances: () =>
      [seller, buyer].map((owner) => chain.balanceToken(asset.address, owner)) as [bigint, bigint],
  }
}

for (const asset of [usdc, dollar2022]) {
  t.test(
    `a refund in ${asset.symbol} moves the amount between the associated accounts, pays its own fee, and is proved`,
    async (t) => {
      const { chain, seller, build, send, prove, balances } = await sold(t, asset)
      const [sellerHad, buyerHad] = balances()
      const lamports = chain.balanceSol(seller)
      const refund = await build()
      const transaction = await send(refund)
      t.strictSame(balances(), [sellerHad - price, buyerHad + price])
      t.equal(
        chain.balanceSol(seller),
        lamports - 5_001n,
        'one signature, and a lamport for the compute units',
      )
      t.match(await prove(transaction), { status: 'proved', paymentKeys: [/^[0-9a-f]{64}$/] })
      await t.rejects(send(refund), /already been processed/i, 'the same bytes land once')
      t.strictSame(balances(), [sellerHad - price, buyerHad + price])
      t.not(
        await send(await build()),
        transaction,
        'each is a transaction of its own, also within one block hash',
      )
    },
  )

  t.test(
    `the token program refuses a refund in ${asset.symbol} that is built wrong, and nothing moves`,
    async (t) => {
      const { cast, build, send, balances } = await sold(t, asset)
      const had = balances()
      const other = asset === usdc ? dollar2022 : usdc
      await t.rejects(async () => send(await build({ decimals: 9 })), 'other decimals')
      await t.rejects(async () => send(await build({ address: other.address })), 'another mint')
      await t.rejects(async () => send(await build({ program: other.program! })), 'another token program')
      await t.rejects(async () => send(await build({}, had[0] + 1n)), 'more than the seller has')
      await t.rejects(
        async () => send(await build({}, price, addressOf(cast.feePayer))),
        'to a wallet without an account',
      )
      await t.rejects(async () => send(await build(), cast.payer), 'signed by another wallet')
      t.strictSame(balances(), had)
    },
  )
}
