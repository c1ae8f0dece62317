import { systemClock } from '../../../../core/ports/clock.ts'
import { silentLog } from '../../../../core/ports/log.ts'
import type { ProofsOptions } from '../../proofsOptions.ts'
import { createEvmRpc } from '../rpc/createEvmRpc.ts'

export interface EvmProofsOptions extends ProofsOptions {
  /** Blocks, the transaction's own included, before it counts. Default 1. */
  readonly confirmations?: number
}

/** What proofs work with: the options with their defaults, and the client of the nodes. */
export function openNodes(options: EvmProofsOptions) {
  const { network, rpcUrls, confirmations = 1, rpcTimeoutMs = 10_000 } = options
  const { clock = systemClock, log = silentLog } = options
  const chainId = Number(network.slice('eip155:'.length))
  const rpc = createEvmRpc({ urls: rpcUrls, chainId, timeoutMs: rpcTimeoutMs, clock, log })
  return { network, confirmations, log, rpc }
}
