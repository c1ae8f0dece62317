import { RpcUnreachable } from '../../core/rpc/rpcError.ts'
import { decodeStrictBase64 } from '../../core/x402/header.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import {
  paymentAccounts,
  type SolanaAccount,
  solanaAccountsFault,
} from '../../core/x402/solanaAccountsFault.ts'
import { BuyerRefusal, UnpayableTerms } from '../buyer.ts'
import { createJsonRpc, type JsonRpc, publicRpcUrl, unexpected } from './jsonRpc.ts'

/** About how long a block hash may be used: 150 slots of 0.4 s, with room. The block height decides. */
export const BLOCKHASH_LIFE_MS = 90_000

export interface LatestBlock {
  readonly blockhash: string
  /** The last block height at which a transaction with this hash may land. */
  readonly lastValidBlockHeight: number
}

/**
 * Asks the chain whether a payment can succeed: right cluster, the token's own mint, enough balance, a payee with an
 * account for it.
 *
 * @param rpcUrl default: the network's public node
 * @throws {UnpayableTerms} in words for the user
 */
export async function askSolanaChain(
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

/** The latest block alone, after somebody else has signed. @throws {BuyerRefusal} in words for the user */
export async function askLatestBlock(
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
    throw new UnpayableTerms(`Name a node of ${asset.network} with --rpc; none is known.`)
  return createJsonRpc(url, asset.network)
}

async function latestBlock(rpc: JsonRpc, signal: AbortSignal): Promise<LatestBlock> {
  const answer = (await rpc('getLatestBlockhash', [{ commitment: 'confirmed' }], signal)) as {
    value?: { blockhash?: unknown; lastValidBlockHeight?: unknown }
  } | null
  const { blockhash, lastValidBlockHeight } = answer?.value ?? {}
  if (typeof blockhash !== 'string' || !Number.isSafeInteger(lastValidBlockHeight)) {
    throw unexpected('getLatestBlockhash')
  }
  return { blockhash, lastValidBlockHeight: lastValidBlockHeight as number }
}

/**
 * Checks that the transfer can succeed and goes where the offer says: the mint is the token we know, our account holds
 * enough, the payee is a wallet that has an account for this token. We never create the payee's account: its rent would
 * be somebody's to take.
 *
 * @throws {UnpayableTerms} in words for the user   @throws {RpcUnreachable} when the node does not say
 */
async function checkSolanaAccounts(
  rpc: JsonRpc,
  terms: OfferTerms,
  payer: string,
  signal: AbortSignal,
): Promise<void> {
  const [mint, source, destination, wallet] = await readAccounts(rpc, paymentAccounts(terms, payer), signal)
  const problem = solanaAccountsFault({ mint, source, destination, wallet }, terms, payer)
  if (problem !== undefined) throw new UnpayableTerms(`${problem}; nothing was signed.`)
}

async function readAccounts(
  rpc: JsonRpc,
  keys: readonly string[],
  signal: AbortSignal,
): Promise<(SolanaAccount | undefined)[]> {
  const config = { encoding: 'base64', commitment: 'confirmed' }
  const answer = (await rpc('getMultipleAccounts', [keys, config], signal)) as { value?: unknown } | null
  const values = answer?.value
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
