import { Keypair } from '@solana/web3.js'
import { objectToSolanaTerms } from '../../../core/x402/objectToSolanaTerms.ts'
import { askSolanaChain, blockhashLifeMs } from './askSolanaChain.ts'
import { BuyerRefusal, type KeyBuyer, type SignedPayment } from './buyer.ts'
import { buildSolanaPayment } from './solanaTransaction.ts'

export interface SolanaBuyerOptions {
  /** 64 bytes: the seed and the public key, as Solana's tools write them. */
  readonly secret: Uint8Array
  /** Default: the network's public node. */
  readonly rpcUrl?: string
}

/**
 * A wallet that signs one token transfer for an offer in a token that we know, with the seller's fee payer. The block
 * hash is always the node's own; a hash from the offer is not used.
 *
 * @throws {TypeError} when the secret is not a key pair; the message does not repeat it
 */
export function createSolanaBuyer(options: SolanaBuyerOptions): KeyBuyer {
  const keypair = toKeypair(options.secret)
  const address = keypair.publicKey.toBase58()
  let hasSigned = false
  /** What the chain refuses was not signed, and another offer may be. */
  const again = (error: unknown): never => {
    hasSigned = false
    throw error
  }

  return {
    address,
    objectTo: (terms) => objectToSolanaTerms(terms, address),
    async sign(terms, signal) {
      if (hasSigned) throw new BuyerRefusal('This run has signed a payment; it signs no second one.')
      hasSigned = true
      const problem = objectToSolanaTerms(terms, address)
      if (problem !== undefined) throw new BuyerRefusal(`The offer was not signed: ${problem}.`)
      const latest = await askSolanaChain(terms, address, options.rpcUrl, signal).catch(again)
      const wire = buildSolanaPayment(terms, keypair, latest.blockhash)
      return {
        network: terms.asset.network,
        asset: terms.asset.address,
        amount: terms.amountAtomic.toString(),
        payTo: terms.payTo,
        payer: address,
        payload: { transaction: Buffer.from(wire).toString('base64') },
        validBeforeMs: Date.now() + blockhashLifeMs,
        blockBound: latest.lastValidBlockHeight,
      } satisfies SignedPayment
    },
  }
}

function toKeypair(secret: Uint8Array): Keypair {
  try {
    return Keypair.fromSecretKey(secret)
  } catch {
    throw new TypeError('Expected a Solana secret key of 64 bytes whose second half is its public key.')
  }
}
