import { base58 } from '@scure/base'
import type { RpcCall } from '../../../../core/rpc/rpc.ts'
import { readWireTransaction } from '../../../../core/solana/wire.ts'
import type { Commitment } from '../check/simulate.ts'
import type { LandedMeta } from './moves.ts'

/** What `getTransaction` answers, as far as proofs look at it. */
export interface Landed {
  /** The transaction, and its encoding. */
  readonly transaction: readonly [string, string]
  readonly meta: (LandedMeta & { readonly err: unknown }) | null
  readonly slot: number
  /** Seconds since 1970; null where the node does not know. */
  readonly blockTime: number | null
}

/** The question for a transaction that has reached a commitment; the answer is a {@link Landed}, or null. */
export const landedCall = (signature: string, commitment: Commitment): RpcCall => ({
  method: 'getTransaction',
  params: [signature, { encoding: 'base64', commitment, maxSupportedTransactionVersion: 0 }],
})

/** Message and effects of this very transaction, if it succeeded; undefined where the node does not tell. */
export function effectsOf(
  { transaction, meta }: Landed,
  signature: string,
): { readonly message: Uint8Array; readonly meta: LandedMeta } | undefined {
  const wire = readWireTransaction(Buffer.from(transaction[0], 'base64'))
  const isThis = wire !== undefined && base58.encode(wire.signatures[0]!) === signature
  return isThis && meta?.err === null ? { message: wire.message, meta } : undefined
}
