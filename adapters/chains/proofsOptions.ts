import type { NetworkId } from '../../core/domain/network.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'

/** With what proofs on one network are made. */
export interface ProofsOptions {
  readonly network: NetworkId
  /** Asked in this order; at least one. */
  readonly rpcUrls: readonly string[]
  /** Limit of one request to a node, in ms. Default 10,000. */
  readonly rpcTimeoutMs?: number
  readonly clock?: Clock
  readonly log?: Log
}
