import { base58 } from '@scure/base'
import { PublicKey, VersionedTransaction } from '@solana/web3.js'
import { builtInAssets } from '../../../core/domain/asset.ts'
import type { ReceiptQuery, ReceiptVerdict, SignedPayment } from './buyer.ts'
import { createJsonRpc, type JsonRpc, RpcFailure } from './jsonRpc.ts'
import { judgeReceipt, type PaymentState, type ReceiptChain } from './judgeReceipt.ts'
import { associatedAccount } from './solanaAddresses.ts'
import { assertGenesis } from './solanaGenesis.ts'
import { readLanded } from './solanaLanded.ts'

/** How many of our account's latest transactions are listed: the most that a node gives at once. */
const LIST_LIMIT = 1_000
/** How far the machine that lists transactions may be behind the one that tells the height: about a minute. */
const LAG_BLOCKS = 150
/** How long before the payment's estimated end it was signed, with room for clocks that disagree. */
const SEARCH_WINDOW_MS = 300_000

/**
 * Asks the chain about a Solana payment. Verified means: the named transaction is on chain without an error, its message
 * is byte for byte the one we signed, and the token balances of our account and the payee's moved by exactly the amount.
 */
export async function verifySolanaReceipt(rpcUrl: string, query: ReceiptQuery): Promise<ReceiptVerdict> {
  const rpc = createJsonRpc(rpcUrl)
  const { payment } = query
  const chain: ReceiptChain = {
    transactionName: 'transaction signature',
    isTransaction: isSignature,
    async problemOf(transaction, signal) {
      await assertGenesis(rpc, payment.network, signal)
      return await problemOf(rpc, payment, transaction, signal)
    },
    stateOf: (signal) => stateOf(rpc, payment, signal),
  }
  return await judgeReceipt(chain, query)
}

/** Empty when the transaction is our payment, undefined when it is not confirmed yet, else what is wrong with it. */
async function problemOf(
  rpc: JsonRpc,
  payment: SignedPayment,
  transaction: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const landed = await readLanded(rpc, transaction, signal)
  if (landed === undefined) return undefined
  if (!landed.message.equals(messageOf(payment))) return 'the transaction is not the one that was signed'
  if (landed.hasFailed) return 'the transaction failed on chain'
  const { source, destination } = accountsOf(payment)
  const amount = BigInt(payment.amount)
  const hasMoved = landed.deltaOf(destination) === amount && landed.deltaOf(source) === -amount
  return hasMoved ? '' : 'the balances did not move by the amount'
}

async function stateOf(rpc: JsonRpc, payment: SignedPayment, signal: AbortSignal): Promise<PaymentState> {
  await assertGenesis(rpc, payment.network, signal)
  // The height first: what is not found after the last height at which it could land, never lands.
  const height = await rpc('getBlockHeight', [{ commitment: 'confirmed' }], signal)
  const { source } = accountsOf(payment)
  const config = { limit: LIST_LIMIT, commitment: 'confirmed' }
  const list = await rpc('getSignaturesForAddress', [source, config], signal)
  if (!Array.isArray(list))
    throw new RpcFailure("The chain's node answered getSignaturesForAddress with something else.")
  for (const entry of list as { signature?: unknown; blockTime?: unknown }[]) {
    const signature = String(entry.signature)
    if (!isSignature(signature) || isTooOld(entry.blockTime, payment)) continue
    const landed = await readLanded(rpc, signature, signal)
    if (landed?.message.equals(messageOf(payment)) !== true) continue
    const problem = await problemOf(rpc, payment, signature, signal)
    if (problem === '') return { charged: 'yes', transaction: signature }
    if (landed.hasFailed) return { charged: 'no', transaction: null }
  }
  const hasExpired = typeof height === 'number' && height > payment.blockBound + LAG_BLOCKS
  if (!hasExpired) return { charged: 'not_yet', transaction: null }
  // A full list may have pushed the payment out: anyone can send dust to our account.
  return { charged: list.length < LIST_LIMIT ? 'no' : 'unknown', transaction: null }
}

/** Block times are in seconds; a node may not know one. */
const isTooOld = (blockTime: unknown, payment: SignedPayment): boolean =>
  typeof blockTime === 'number' && blockTime * 1_000 < payment.validBeforeMs - SEARCH_WINDOW_MS

function accountsOf(payment: SignedPayment): { source: string; destination: string } {
  const asset = builtInAssets.find((a) => a.network === payment.network && a.address === payment.asset)
  if (asset === undefined) throw new RpcFailure(`The payment's token ${payment.asset} is not known.`)
  const accountOf = (owner: string) => associatedAccount(new PublicKey(owner), asset).toBase58()
  return { source: accountOf(payment.payer), destination: accountOf(payment.payTo) }
}

function messageOf(payment: SignedPayment): Buffer {
  const wire = Buffer.from(String(payment.payload['transaction']), 'base64')
  return Buffer.from(VersionedTransaction.deserialize(wire).message.serialize())
}

function isSignature(text: string): boolean {
  try {
    return text.length <= 90 && base58.decode(text).length === 64
  } catch {
    return false
  }
}
