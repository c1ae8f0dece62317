import { base58 } from '@scure/base'
import { RpcRefused } from '../../../../core/rpc/post.ts'
import type { SigningKey } from '../../../../core/solana/ed25519.ts'
import { signatureBytes, type WireTransaction } from '../../../../core/solana/wire.ts'
import { describeError, simulatedAt, type TransactionError } from '../check/simulation.ts'
import { isSelfPaid } from '../check/transfer.ts'
import { type Rpc, rpcCodes } from '../rpc/nodes.ts'

/** How often the node forwards a transaction. Afterwards only the settler sends it again. */
const NODE_RETRIES = 5

export type Broadcast =
  /** A node accepted the transaction, or reported that it had landed before. */
  | { readonly status: 'taken' }
  /** The node simulated the transaction and did not forward it. An earlier attempt may still have reached the chain. */
  | { readonly status: 'refused'; readonly message: string }
  /** There was no usable response, so the node may or may not have forwarded the transaction. */
  | { readonly status: 'unknown'; readonly message: string }

/** Sends signed bytes. A repeated call is safe, because the same bytes land only once. Never rejects. */
export async function broadcast(
  rpc: Rpc,
  base64: string,
  options: { readonly skipPreflight: boolean },
): Promise<Broadcast> {
  const { method, params } = sending(base64, options)
  try {
    await rpc.call(method, ...params)
    return { status: 'taken' }
  } catch (error) {
    return readFault(error)
  }
}

/**
 * Sends several transactions at once. The node simulates each first, so that a transaction that would fail now costs no fee.
 * Results are in order. Never rejects.
 */
export async function broadcastAll(rpc: Rpc, all: readonly string[]): Promise<Broadcast[]> {
  const responses = await rpc.many(all.map((base64) => sending(base64, { skipPreflight: false })))
  return responses.map((response) => (response.ok ? { status: 'taken' } : readFault(response.error)))
}

const sending = (base64: string, { skipPreflight }: { readonly skipPreflight: boolean }) => ({
  method: 'sendTransaction',
  params: [
    base64,
    { encoding: 'base64', skipPreflight, preflightCommitment: simulatedAt, maxRetries: NODE_RETRIES },
  ],
})

function readFault(error: unknown): Broadcast {
  const message = error instanceof Error ? error.message : 'failed'
  if (!(error instanceof RpcRefused) || error.code !== rpcCodes.preflightFailure) {
    return { status: 'unknown', message }
  }
  const err = (error.data as { err?: TransactionError } | null | undefined)?.err
  if (err === 'AlreadyProcessed') return { status: 'taken' }
  return {
    status: 'refused',
    message: err == null ? message : `The transaction would fail: ${describeError(err)}.`,
  }
}

/** A transaction with all its signatures, which can land from now on. */
export interface SignedTransaction {
  readonly base64: string
  /** The fee payer's signature in base58, which is the transaction's id. */
  readonly signature: string
}

/**
 * Adds the fee payer's signature to a transaction that the check has accepted. If the payer pays the fee, the transaction is
 * already complete. The same transaction always gives the same bytes.
 */
export function cosign(transaction: WireTransaction, key: SigningKey): SignedTransaction {
  const { bytes, message, signatures } = transaction
  if (isSelfPaid(transaction)) {
    return { base64: Buffer.from(bytes).toString('base64'), signature: base58.encode(signatures[0]!) }
  }
  const signature = key.sign(message)
  const signed = Buffer.from(bytes)
  // The transaction has two signatures, so their count takes one byte.
  signed.set(signature, 1)
  if (signature.length !== signatureBytes || bytes[0] !== 2)
    throw new Error('A payment has two signatures of 64 bytes.')
  return { base64: signed.toString('base64'), signature: base58.encode(signature) }
}
