import type { NetworkId } from '../../../../core/domain/network.ts'
import { systemClock } from '../../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../../core/ports/log.ts'
import type { CallNode, RpcRefused } from '../../../../core/rpc/post.ts'
import { createRpc, type Rpc, type RpcOptions, servedChain } from '../../../../core/rpc/rpc.ts'
import { callNode } from '../../nodeHttp.ts'
import type { ProofsOptions } from '../../proofs.ts'

/** Bytes in hex, with 0x. */
export type Hex = `0x${string}`

/** Longest response that is read, in bytes. If a batch of receipts is longer, its halves are requested. */
const MAX_ANSWER_BYTES = 8_000_000

interface EvmRpcOptions extends Pick<RpcOptions, 'urls' | 'timeoutMs' | 'clock' | 'log'> {
  readonly network: NetworkId
  /** Default: over HTTP. */
  readonly sendRequest?: CallNode
}

/** Creates the client of an EVM chain's nodes. It sends no request before the first call. */
export function createEvmRpc({ network, sendRequest = callNode, ...options }: EvmRpcOptions): Rpc {
  return createRpc({
    ...options,
    sendRequest,
    // A repeated call is safe, because reads change nothing and the same signed bytes are the same transaction.
    isRepeatable: true,
    maxResponseBytes: MAX_ANSWER_BYTES,
    chain: servedChain(network),
    isChainIdBatched: true,
  })
}

export interface EvmProofsOptions extends ProofsOptions {
  /** Confirmations a transaction needs, including its own block. Default 1. */
  readonly confirmations?: number
}

/** The clients that proofs on one network use. */
export interface EvmNodes {
  readonly network: NetworkId
  readonly confirmations: number
  readonly log: Log
  /** Uses all nodes. */
  readonly rpc: Rpc
  /** One client for each node. */
  readonly each: readonly Rpc[]
}

/** Creates the clients of a network's nodes. They send no request before the first call. */
export function openNodes(options: EvmProofsOptions): EvmNodes {
  const { network, rpcUrls, confirmations = 1, rpcTimeoutMs = 10_000 } = options
  const { clock = systemClock, log = silentLog } = options
  const clientOf = (urls: readonly string[]) =>
    createEvmRpc({ urls, network, timeoutMs: rpcTimeoutMs, clock, log })
  return { network, confirmations, log, rpc: clientOf(rpcUrls), each: rpcUrls.map((url) => clientOf([url])) }
}

/** The EIP-155 chain id in a CAIP-2 id. */
export const chainIdOf = (network: NetworkId): number => Number(network.slice('eip155:'.length))

/** True when the EVM itself stopped the call. False when the node could not run the call. */
export const isRevert = ({ code, data, message }: RpcRefused): boolean =>
  code === 3 || typeof data === 'string' || revertPattern.test(message)

/** The texts of go-ethereum (core/vm/errors.go), and of revm, which anvil and reth use. */
const revertPattern = new RegExp(
  [
    'revert|out ?of ?gas|OOG\\b|intrinsic gas|gas required exceeds|gas uint64 overflow',
    'invalid ?(?:FE)?opcode|opcode ?not ?found|invalid ?jump|write protection|static ?call',
    'stack ?(?:under|over)flow|stack limit|call depth|call ?too ?deep|return data out of bounds|OutOfOffset',
  ].join('|'),
  'i',
)
