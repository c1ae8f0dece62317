import { base58 } from '@scure/base'
import { RpcUnreachable } from '../../core/rpc/post.ts'
import { readSigningKey, type SigningKey } from '../../core/solana/ed25519.ts'
import { readWireTransaction, signatureBytes } from '../../core/solana/wire.ts'
import { decodeStrictBase64 } from '../../core/x402/header.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import { buildSolanaPayment } from '../../core/x402/solanaPayment.ts'
import {
  paymentAccounts,
  type SolanaAccount,
  solanaAccountsFault,
  solanaTermsFault,
} from '../../core/x402/solanaTermsFault.ts'
import { BuyerRefusal, type KeyBuyer, type SignedPayment, UnpayableTerms } from '../buyer.ts'
import { createJsonRpc, type JsonRpc, publicRpcUrl, unexpected } from './jsonRpc.ts'

export interface SolanaBuyerOptions {
  /** 64 bytes, which are seed and public key, as Solana's tools write them. */
  readonly secret: Uint8Array
  /** If absent, the network's public node. */
  readonly rpcUrl?: string
}

/**
 * A wallet that signs one token transfer for an offer in a known token, with the seller's fee payer. The blockhash always comes
 * from the node, because a blockhash in the offer is ignored.
 *
 * @throws {TypeError} if the secret is not a key pair. The message does not repeat the secret
 */
export function createSolanaBuyer(options: SolanaBuyerOptions): KeyBuyer {
  const key = readSigningKey(options.secret)
  if (key === undefined)
    throw new TypeError('Expected a Solana secret key of 64 bytes whose second half is its public key.')
  const { address } = key
  let hasSigned = false
  /** Allows the wallet to sign another offer, because it has not signed this payment, which cannot succeed on chain. */
  const again = (error: unknown): never => {
    hasSigned = false
    throw error
  }

  return {
    address,
    objectTo: (terms) => solanaTermsFault(terms, address),
    signText: async (text) => base58.encode(key.sign(Buffer.from(text, 'utf8'))),
    async sign(terms, signal) {
      if (hasSigned)
        throw new BuyerRefusal('This run has already signed a payment and does not sign a second one.')
      hasSigned = true
      const problem = solanaTermsFault(terms, address)
      if (problem !== undefined) throw new BuyerRefusal(`The offer was not signed: ${problem}.`)
      const latest = await readSolanaChain(terms, address, options.rpcUrl, signal).catch(again)
      const wire = signSecond(buildSolanaPayment(terms, address, latest.blockhash), key)
      return {
        scheme: terms.scheme,
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

/** Signs in the second slot. The first slot stays empty for the fee payer, which is the seller's facilitator. */
function signSecond(transaction: Uint8Array, key: SigningKey): Uint8Array {
  const signed = Buffer.from(transaction)
  signed.set(key.sign(readWireTransaction(transaction)!.message), 1 + signatureBytes)
  return signed
}

/**
 * How long a blockhash can be used, in ms, which is about 150 slots of 0.4 s, with a margin. This is an estimate, because the block
 * height decides.
 */
const BLOCKHASH_LIFE_MS = 90_000

interface LatestBlock {
  readonly blockhash: string
  /** The last block height at which a transaction with this hash may land. */
  readonly lastValidBlockHeight: number
}

/**
 * Checks on chain that a payment can succeed. The cluster must be the right one, the mint must be the token's own, the balance must
 * suffice, and the payee must have a token account.
 *
 * @param rpcUrl if undefined, the network's public node
 * @throws {UnpayableTerms} with a message for the user
 */
export async function readSolanaChain(
  terms: OfferTerms,
  payer: string,
  rpcUrl: string | undefined,
  signal: AbortSignal,
): Promise<LatestBlock> {
  const rpc = nodeOf(terms, rpcUrl)
  try {
    await checkSolanaAccounts(rpc, terms, payer, signal)
    return await latestBlock(rpc, signal)
  } catch (error) {
    throw error instanceof RpcUnreachable
      ? new UnpayableTerms(`${error.message}. Nothing was signed.`, { cause: error })
      : error
  }
}

/** Reads only the latest block, after an external signer has signed. @throws {BuyerRefusal} with a message for the user */
export async function readLatestBlock(
  terms: OfferTerms,
  rpcUrl: string | undefined,
  signal: AbortSignal,
): Promise<LatestBlock> {
  try {
    return await latestBlock(nodeOf(terms, rpcUrl), signal)
  } catch (error) {
    throw error instanceof RpcUnreachable
      ? new BuyerRefusal(`${error.message}. The payment was not sent.`, { cause: error })
      : error
  }
}

function nodeOf({ asset }: OfferTerms, rpcUrl: string | undefined): JsonRpc {
  const url = rpcUrl ?? publicRpcUrl(asset.network)
  if (url === undefined)
    throw new UnpayableTerms(`No default node is known for ${asset.network}. Set a node with --rpc.`)
  return createJsonRpc(url, asset.network)
}

async function latestBlock(rpc: JsonRpc, signal: AbortSignal): Promise<LatestBlock> {
  const response = (await rpc('getLatestBlockhash', [{ commitment: 'confirmed' }], signal)) as {
    value?: { blockhash?: unknown; lastValidBlockHeight?: unknown }
  } | null
  const { blockhash, lastValidBlockHeight } = response?.value ?? {}
  if (typeof blockhash !== 'string' || !Number.isSafeInteger(lastValidBlockHeight)) {
    throw unexpected('getLatestBlockhash')
  }
  return { blockhash, lastValidBlockHeight: lastValidBlockHeight as number }
}

/**
 * Checks that the transfer can succeed and pays the payee of the offer. The mint must be the known token,
 * this account must have enough, and the payee must be a wallet with an account for the token. The buyer
 * never creates the payee's account, because the payee could take its rent.
 *
 * @throws {UnpayableTerms} with a message for the user
 * @throws {RpcUnreachable} if the node does not respond
 */
async function checkSolanaAccounts(
  rpc: JsonRpc,
  terms: OfferTerms,
  payer: string,
  signal: AbortSignal,
): Promise<void> {
  const [mint, source, destination, wallet] = await readAccounts(rpc, paymentAccounts(terms, payer), signal)
  const problem = solanaAccountsFault({ mint, source, destination, wallet }, terms, payer)
  if (problem !== undefined) throw new UnpayableTerms(`${problem}. Nothing was signed.`)
}

async function readAccounts(
  rpc: JsonRpc,
  keys: readonly string[],
  signal: AbortSignal,
): Promise<(SolanaAccount | undefined)[]> {
  const config = { encoding: 'base64', commitment: 'confirmed' }
  const response = (await rpc('getMultipleAccounts', [keys, config], signal)) as { value?: unknown } | null
  const values = response?.value
  if (!Array.isArray(values) || values.length !== keys.length) {
    throw unexpected('getMultipleAccounts')
  }
  return values.map(toAccount)
}

function toAccount(value: unknown): SolanaAccount | undefined {
  if (value === null || typeof value !== 'object') return undefined
  const { owner, executable, data } = value as { owner?: unknown; executable?: unknown; data?: unknown }
  const bytes =
    Array.isArray(data) && typeof data[0] === 'string' ? decodeStrictBase64(data[0], 1_000_000) : undefined
  if (typeof owner !== 'string' || bytes === undefined) {
    throw unexpected('getMultipleAccounts')
  }
  return { owner, isExecutable: executable === true, data: Buffer.from(bytes) }
}
