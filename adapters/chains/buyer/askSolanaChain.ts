import { PublicKey } from '@solana/web3.js'
import type { OfferTerms } from '../../../core/x402/offerTerms.ts'
import { BuyerRefusal, UnpayableTerms } from './buyer.ts'
import { createJsonRpc, type JsonRpc, RpcFailure } from './jsonRpc.ts'
import { publicRpcUrl } from './publicRpc.ts'
import { checkSolanaAccounts } from './solanaAccounts.ts'
import { assertGenesis } from './solanaGenesis.ts'

/** About how long a block hash may be used: 150 slots of 0.4 s, with room. The block height decides. */
export const blockhashLifeMs = 90_000

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
    await assertGenesis(rpc, terms.asset.network, signal)
    await checkSolanaAccounts(rpc, terms, new PublicKey(payer), signal)
    return await latestBlock(rpc, signal)
  } catch (error) {
    throw error instanceof RpcFailure
      ? new UnpayableTerms(`${error.message} Nothing was signed.`, { cause: error })
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
    throw error instanceof RpcFailure
      ? new BuyerRefusal(`${error.message} The payment was not sent.`, { cause: error })
      : error
  }
}

function nodeOf({ asset }: OfferTerms, rpcUrl: string | undefined): JsonRpc {
  const url = rpcUrl ?? publicRpcUrl(asset.network)
  if (url === undefined)
    throw new UnpayableTerms(`Name a node of ${asset.network} with --rpc; none is known.`)
  return createJsonRpc(url)
}

async function latestBlock(rpc: JsonRpc, signal: AbortSignal): Promise<LatestBlock> {
  const answer = (await rpc('getLatestBlockhash', [{ commitment: 'confirmed' }], signal)) as {
    value?: { blockhash?: unknown; lastValidBlockHeight?: unknown }
  } | null
  const { blockhash, lastValidBlockHeight } = answer?.value ?? {}
  if (typeof blockhash !== 'string' || !Number.isSafeInteger(lastValidBlockHeight)) {
    throw new RpcFailure("The chain's node answered getLatestBlockhash with something else.")
  }
  return { blockhash, lastValidBlockHeight: lastValidBlockHeight as number }
}
