import type { PublicKey } from '@solana/web3.js'
import {
  objectToSolanaAccounts,
  paymentAccounts,
  type SolanaAccount,
} from '../../../core/x402/objectToSolanaAccounts.ts'
import type { OfferTerms } from '../../../core/x402/offerTerms.ts'
import { decodeStrictBase64 } from '../../../core/x402/strictBase64.ts'
import { UnpayableTerms } from './buyer.ts'
import { type JsonRpc, RpcFailure } from './jsonRpc.ts'

/**
 * Checks that the transfer can succeed and goes where the offer says: the mint is the token we know, our account holds
 * enough, the payee is a wallet that has an account for this token. We never create the payee's account: its rent would
 * be somebody's to take.
 *
 * @throws {UnpayableTerms} in words for the user   @throws {RpcFailure} when the node does not say
 */
export async function checkSolanaAccounts(
  rpc: JsonRpc,
  terms: OfferTerms,
  payer: PublicKey,
  signal: AbortSignal,
): Promise<void> {
  const [mint, source, destination, wallet] = await readAccounts(
    rpc,
    paymentAccounts(terms, payer.toBase58()),
    signal,
  )
  const problem = objectToSolanaAccounts({ mint, source, destination, wallet }, terms, payer.toBase58())
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
    throw new RpcFailure("The chain's node answered getMultipleAccounts with something else.")
  }
  return values.map(toAccount)
}

function toAccount(value: unknown): SolanaAccount | undefined {
  if (value === null || typeof value !== 'object') return undefined
  const { owner, executable, data } = value as { owner?: unknown; executable?: unknown; data?: unknown }
  const bytes =
    Array.isArray(data) && typeof data[0] === 'string' ? decodeStrictBase64(data[0], 1_000_000) : undefined
  if (typeof owner !== 'string' || bytes === undefined) {
    throw new RpcFailure("The chain's node answered getMultipleAccounts with something else.")
  }
  return { owner, isExecutable: executable === true, data: Buffer.from(bytes) }
}
