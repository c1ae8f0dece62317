import { VersionedTransaction } from '@solana/web3.js'
import { decodeStrictBase64 } from '../../../core/x402/strictBase64.ts'
import { type JsonRpc, RpcFailure } from './jsonRpc.ts'

/** A Solana transaction is at most one packet long. */
const MAX_TRANSACTION_BYTES = 1_232

/** A confirmed transaction, as far as a receipt needs it. */
export interface Landed {
  readonly message: Buffer
  readonly hasFailed: boolean
  /** Token balance after minus before, by account. */
  deltaOf(account: string): bigint
}

/** Reads a transaction at `confirmed`; undefined when the node does not have it (yet). @throws {RpcFailure} */
export async function readLanded(
  rpc: JsonRpc,
  signature: string,
  signal: AbortSignal,
): Promise<Landed | undefined> {
  const config = { encoding: 'base64', commitment: 'confirmed', maxSupportedTransactionVersion: 0 }
  const answer = (await rpc('getTransaction', [signature, config], signal)) as {
    transaction?: unknown
    meta?: { err?: unknown; preTokenBalances?: unknown; postTokenBalances?: unknown }
  } | null
  if (answer === null) return undefined
  const wire = Array.isArray(answer.transaction) ? answer.transaction[0] : undefined
  const bytes = typeof wire === 'string' ? decodeStrictBase64(wire, MAX_TRANSACTION_BYTES) : undefined
  if (bytes === undefined || typeof answer.meta !== 'object' || answer.meta === null) {
    throw new RpcFailure("The chain's node answered getTransaction with something else.")
  }
  const { message } = VersionedTransaction.deserialize(bytes)
  const keys = message.staticAccountKeys.map((key) => key.toBase58())
  const { err, preTokenBalances, postTokenBalances } = answer.meta
  return {
    message: Buffer.from(message.serialize()),
    hasFailed: err !== null,
    deltaOf: (account) => {
      const index = keys.indexOf(account)
      return balanceAt(postTokenBalances, index) - balanceAt(preTokenBalances, index)
    },
  }
}

function balanceAt(balances: unknown, index: number): bigint {
  const entries = (Array.isArray(balances) ? balances : []) as {
    accountIndex?: unknown
    uiTokenAmount?: { amount?: unknown }
  }[]
  const amount = entries.find((entry) => entry.accountIndex === index)?.uiTokenAmount?.amount
  return typeof amount === 'string' && /^\d{1,20}$/.test(amount) ? BigInt(amount) : 0n
}
