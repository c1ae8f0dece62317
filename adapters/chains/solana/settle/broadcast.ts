import { RpcRefused } from '../../../../core/rpc/rpcError.ts'
import { describeError, simulatedAt, type TransactionError } from '../check/simulate.ts'
import type { Rpc } from '../rpc/createSolanaRpc.ts'
import { rpcCodes } from '../rpc/rpcCodes.ts'

/** How often the node itself sends a transaction on before it leaves that to us. */
const NODE_RETRIES = 5

export type Broadcast =
  /** A node took it, or said that it has landed before. */
  | { readonly status: 'taken' }
  /** The node simulated it and did not send it on. It may still have reached the chain through an earlier try. */
  | { readonly status: 'refused'; readonly message: string }
  /** No usable answer: it may be on its way or not. */
  | { readonly status: 'unknown'; readonly message: string }

/** Sends signed bytes; sending them again does no harm. Never rejects. */
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

/** Many at once. The node simulates each first, so that one that would fail now costs no fee. In order; never rejects. */
export async function broadcastAll(rpc: Rpc, all: readonly string[]): Promise<Broadcast[]> {
  const answers = await rpc.many(all.map((base64) => sending(base64, { skipPreflight: false })))
  return answers.map((answer) => (answer.ok ? { status: 'taken' } : readFault(answer.error)))
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
