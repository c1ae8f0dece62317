import { systemClock } from '../../../../core/ports/clock.ts'
import { silentLog } from '../../../../core/ports/log.ts'
import type { ProofsOptions } from '../../proofsOptions.ts'
import { createEvmRpc } from '../rpc/createEvmRpc.ts'

export interface EvmProofsOptions extends ProofsOptions {
  /** Blocks, the transaction's own included, before it counts. Default 1. */
  readonly confirmations?: number
}

/** What proofs work with: the options with their defaults, the client of the nodes, and one for each node. */
export function openNodes(options: EvmProofsOptions) {
  const { network, rpcUrls, confirmations = 1, rpcTimeoutMs = 10_000 } = options
  const { clock = systemClock, log = silentLog } = options
  const chainId = Number(network.slice('eip155:'.length))
  const clientOf = (urls: readonly string[]) =>
    createEvmRpc({ urls, chainId, timeoutMs: rpcTimeoutMs, clock, log })
  const each = rpcUrls.map((url) => clientOf([url]))
  return { network, confirmations, log, rpc: clientOf(rpcUrls), each }
}
