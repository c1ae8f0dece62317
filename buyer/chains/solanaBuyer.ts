import { readSigningKey, type SigningKey } from '../../core/solana/signingKey.ts'
import { readWireTransaction, signatureBytes } from '../../core/solana/wire.ts'
import { buildSolanaPayment } from '../../core/x402/buildSolanaPayment.ts'
import { solanaTermsFault } from '../../core/x402/solanaTermsFault.ts'
import { BuyerRefusal, type KeyBuyer, type SignedPayment } from '../buyer.ts'
import { askSolanaChain, BLOCKHASH_LIFE_MS } from './askSolanaChain.ts'

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
  const key = readSigningKey(options.secret)
  if (key === undefined)
    throw new TypeError('Expected a Solana secret key of 64 bytes whose second half is its public key.')
  const { address } = key
  let hasSigned = false
  /** What the chain refuses was not signed, and another offer may be. */
  const again = (error: unknown): never => {
    hasSigned = false
    throw error
  }

  return {
    address,
    objectTo: (terms) => solanaTermsFault(terms, address),
    async sign(terms, signal) {
      if (hasSigned) throw new BuyerRefusal('This run has signed a payment; it signs no second one.')
      hasSigned = true
      const problem = solanaTermsFault(terms, address)
      if (problem !== undefined) throw new BuyerRefusal(`The offer was not signed: ${problem}.`)
      const latest = await askSolanaChain(terms, address, options.rpcUrl, signal).catch(again)
      const wire = signSecond(buildSolanaPayment(terms, address, latest.blockhash), key)
      return {
        network: terms.asset.network,
        asset: terms.asset.address,
        amount: terms.amountAtomic.toString(),
        payTo: terms.payTo,
        payer: address,
        payload: { transaction: Buffer.from(wire).toString('base64') },
        validBeforeMs: Date.now() + BLOCKHASH_LIFE_MS,
        blockBound: latest.lastValidBlockHeight,
      } satisfies SignedPayment
    },
  }
}

/** The payer signs second; the fee payer's signature is left empty for the seller's facilitator. */
function signSecond(transaction: Uint8Array, key: SigningKey): Uint8Array {
  const signed = Buffer.from(transaction)
  signed.set(key.sign(readWireTransaction(transaction)!.message), 1 + signatureBytes)
  return signed
}
