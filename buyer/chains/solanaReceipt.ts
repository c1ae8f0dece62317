import { base58 } from '@scure/base'
import { builtInAssets } from '../../core/domain/asset.ts'
import { sameBytes } from '../../core/solana/bytes.ts'
import { readMessage } from '../../core/solana/message.ts'
import { tokenAccountOf } from '../../core/solana/tokenAccountOf.ts'
import { type TokenBalance, tokenBalances } from '../../core/solana/tokenBalances.ts'
import { MAX_TRANSACTION_BYTES, readWireTransaction } from '../../core/solana/wire.ts'
import { decodeStrictBase64 } from '../../core/x402/header.ts'
import type { ReceiptQuery, ReceiptVerdict, SignedPayment } from '../buyer.ts'
import { createJsonRpc, type JsonRpc, unexpected } from './jsonRpc.ts'
import { judgeReceipt, type PaymentState, type ReceiptChain } from './judgeReceipt.ts'

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
  const { payment } = query
  const rpc = createJsonRpc(rpcUrl, payment.network)
  const chain: ReceiptChain = {
    transactionName: 'transaction signature',
    isTransaction: isSignature,
    problemOf: (transaction, signal) => problemOf(rpc, payment, transaction, signal),
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
  if (!sameBytes(landed.message, messageOf(payment))) return 'the transaction is not the one that was signed'
  if (landed.hasFailed) return 'the transaction failed on chain'
  const { source, destination } = accountsOf(payment)
  const amount = BigInt(payment.amount)
  const hasMoved =
    landed.deltaOf(destination, payment.asset) === amount && landed.deltaOf(source, payment.asset) === -amount
  return hasMoved ? '' : 'the balances did not move by the amount'
}

async function stateOf(rpc: JsonRpc, payment: SignedPayment, signal: AbortSignal): Promise<PaymentState> {
  // The height first: what is not found after the last height at which it could land, never lands.
  const height = await rpc('getBlockHeight', [{ commitment: 'confirmed' }], signal)
  const { source } = accountsOf(payment)
  const config = { limit: LIST_LIMIT, commitment: 'confirmed' }
  const list = await rpc('getSignaturesForAddress', [source, config], signal)
  if (!Array.isArray(list)) throw unexpected('getSignaturesForAddress')
  const ours = messageOf(payment)
  for (const entry of list as { signature?: unknown; blockTime?: unknown }[]) {
    const signature = String(entry.signature)
    if (!isSignature(signature) || isTooOld(entry.blockTime, payment)) continue
    const landed = await readLanded(rpc, signature, signal)
    if (landed === undefined || !sameBytes(landed.message, ours)) continue
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
  if (asset === undefined) throw new Error(`The payment's token ${payment.asset} is not known`)
  return { source: tokenAccountOf(payment.payer, asset), destination: tokenAccountOf(payment.payTo, asset) }
}

function messageOf(payment: SignedPayment): Uint8Array {
  const wire = readWireTransaction(Buffer.from(String(payment.payload['transaction']), 'base64'))
  if (wire === undefined) throw new Error('The payment holds no transaction')
  return wire.message
}

function isSignature(text: string): boolean {
  try {
    return text.length <= 90 && base58.decode(text).length === 64
  } catch {
    return false
  }
}

/** A confirmed transaction, as far as a receipt needs it. */
interface Landed {
  readonly message: Uint8Array
  readonly hasFailed: boolean
  /** Token balance after minus before. */
  deltaOf(account: string, mint: string): bigint
}

/** Reads a transaction at `confirmed`; undefined when the node does not have it (yet). @throws {RpcUnreachable} */
async function readLanded(rpc: JsonRpc, signature: string, signal: AbortSignal): Promise<Landed | undefined> {
  const config = { encoding: 'base64', commitment: 'confirmed', maxSupportedTransactionVersion: 0 }
  const answer = (await rpc('getTransaction', [signature, config], signal)) as {
    transaction?: unknown
    meta?: {
      err?: unknown
      preTokenBalances?: readonly TokenBalance[] | null
      postTokenBalances?: readonly TokenBalance[] | null
    }
  } | null
  if (answer === null) return undefined
  const text = Array.isArray(answer.transaction) ? answer.transaction[0] : undefined
  const bytes = typeof text === 'string' ? decodeStrictBase64(text, MAX_TRANSACTION_BYTES) : undefined
  const wire = bytes === undefined ? undefined : readWireTransaction(bytes)
  if (wire === undefined || typeof answer.meta !== 'object' || answer.meta === null)
    throw unexpected('getTransaction')
  const { message } = wire
  const { err, preTokenBalances, postTokenBalances } = answer.meta
  return {
    message,
    hasFailed: err !== null,
    deltaOf: (account, mint) => {
      const keys = (readMessage(message)?.keys ?? []).map((key) => base58.encode(key))
      const [after, before] = [postTokenBalances, preTokenBalances].map(
        (list) => tokenBalances(list, keys, mint).get(account) ?? 0n,
      )
      return after! - before!
    },
  }
}
