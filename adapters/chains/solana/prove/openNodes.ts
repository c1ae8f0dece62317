import { systemClock } from '../../../../core/ports/clock.ts'
import { silentLog } from '../../../../core/ports/log.ts'
import type { ProofsOptions } from '../../proofsOptions.ts'
import type { Commitment } from '../check/simulate.ts'
import { createSolanaRpc } from '../rpc/createSolanaRpc.ts'

export interface SolanaProofsOptions extends ProofsOptions {
  /** When a transfer counts; the settlers' own. Default `confirmed`. */
  readonly commitment?: Commitment
}

/** What proofs work with: the options with their defaults, the client of the nodes, and one for each node. */
export function openNodes(options: SolanaProofsOptions) {
  const { network, rpcUrls, commitment = 'confirmed', rpcTimeoutMs = 10_000 } = options
  const { clock = systemClock, log = silentLog } = options
  const genesis = network.slice('solana:'.length)
  const clientOf = (urls: readonly string[]) =>
    createSolanaRpc({ urls, genesis, timeoutMs: rpcTimeoutMs, clock, log })
  const each = rpcUrls.map((url) => clientOf([url]))
  return { network, commitment, log, rpc: clientOf(rpcUrls), each }
}
