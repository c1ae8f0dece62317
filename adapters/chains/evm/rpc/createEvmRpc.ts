import type { AskNode } from '../../../../core/rpc/post.ts'
import { createRpc, type Rpc, type RpcOptions } from '../../../../core/rpc/rpc.ts'
import { servedChain } from '../../../../core/rpc/servedChain.ts'
import { askNode } from '../../askNode.ts'

/** A batch of receipts may be long; one that comes to more is asked for in halves. */
const MAX_ANSWER_BYTES = 8_000_000

export interface EvmRpcOptions extends Pick<RpcOptions, 'urls' | 'timeoutMs' | 'clock' | 'log'> {
  /** EIP-155. */
  readonly chainId: number
  /** Default: over HTTP. */
  readonly ask?: AskNode
}

/** Makes the client of an EVM chain's nodes; nothing is sent before the first call. */
export function createEvmRpc({ chainId, ask = askNode, ...options }: EvmRpcOptions): Rpc {
  return createRpc({
    ...options,
    ask,
    // Reads change nothing, and the same signed bytes are the same transaction.
    isRepeatable: true,
    maxAnswerBytes: MAX_ANSWER_BYTES,
    chain: servedChain(`eip155:${chainId}`),
    isChainAskedAlong: true,
  })
}
