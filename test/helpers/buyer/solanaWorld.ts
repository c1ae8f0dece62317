import { Connection, Keypair, VersionedTransaction } from '@solana/web3.js'
import type { Test } from 'tap'
import { createSolanaBuyer } from '../../../buyer/chains/solanaBuyer.ts'
import type { PayOptions } from '../../../buyer/payOptions.ts'
import { type LocalSolana, startLocalSolana } from '../../../localnet/solana/startLocalSolana.ts'
import { honestOffer } from './honestOffer.ts'
import { createPayOnce, type PaidRun } from './payOnce.ts'
import { type Answer, deliver, offer, type Received } from './seller.ts'

export const SOLANA_PRICE = '10000'

/** The Solana counterpart of the EVM world. */
export interface SolanaWorld {
  readonly chain: LocalSolana
  readonly secret: Uint8Array
  readonly buyer: string
  readonly payTo: string
  readonly feePayer: Keypair
  offerFor(url: string, entry?: object, rest?: object): Record<string, unknown>
  /** Co-signs as fee payer and sends, as a facilitator does. @returns the signature */
  settle(request: Received): Promise<string>
  receiptOf(transaction: string, more?: object): Record<string, unknown>
  readonly honest: Answer
  pay(respond: Answer, options?: Partial<PayOptions>): Promise<PaidRun>
}

export async function startSolanaWorld(t: Test): Promise<SolanaWorld> {
  const chain = await startLocalSolana({ slotMs: 50 })
  t.teardown(() => chain.close())
  const connection = new Connection(chain.rpcUrl, { commitment: 'confirmed', wsEndpoint: chain.wsUrl })
  const keypair = Keypair.generate()
  const buyer = keypair.publicKey.toBase58()
  const payTo = Keypair.generate().publicKey.toBase58()
  const feePayer = Keypair.generate()
  chain.airdrop(feePayer.publicKey.toBase58(), 1_000_000_000n)
  chain.mintUsdc(buyer, 10_000_000n)
  chain.createAta(payTo)

  const world: SolanaWorld = {
    chain,
    secret: keypair.secretKey,
    buyer,
    payTo,
    feePayer,
    offerFor: (url, entry, rest) =>
      honestOffer(
        url,
        {
          network: chain.network,
          amount: SOLANA_PRICE,
          asset: chain.usdcMint,
          payTo,
          extra: { feePayer: feePayer.publicKey.toBase58() },
        },
        entry,
        rest,
      ),
    async settle({ payment }) {
      const { transaction } = payment!['payload'] as { transaction: string }
      const signed = VersionedTransaction.deserialize(Buffer.from(transaction, 'base64'))
      signed.sign([feePayer])
      return await connection.sendRawTransaction(signed.serialize())
    },
    receiptOf: (transaction, more = {}) => ({
      success: true,
      transaction,
      network: chain.network,
      payer: buyer,
      ...more,
    }),
    honest: async (request, response, seller) => {
      if (request.payment === null) return offer(response, world.offerFor(seller.url))
      deliver(response, world.receiptOf(await world.settle(request)))
    },
    pay: createPayOnce(t, {
      family: 'solana',
      rpcUrl: chain.rpcUrl,
      wallet: () => createSolanaBuyer({ secret: keypair.secretKey, rpcUrl: chain.rpcUrl }),
      balance: () => chain.balanceUsdc(buyer),
    }),
  }
  return world
}
