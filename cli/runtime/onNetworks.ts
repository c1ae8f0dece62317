import type { ProofsOptions } from '../../adapters/chains/proofsOptions.ts'
import type { Config, NetworkConfig } from '../../core/config/types.ts'
import { familyOf, type NetworkId } from '../../core/domain/network.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'

/** Sellers' clients give up after 15 s, and a proof is two questions to a node. */
const RPC_TIMEOUT_MS = 5_000

export interface ProofParts {
  readonly clock: Clock
  readonly log: Log
  /** Limit of one request to a node. Default: what a seller waits for. */
  readonly rpcTimeoutMs?: number
}

/** Imports what makes proofs on one network of a family. */
type Load<T> = () => Promise<(options: ProofsOptions & { readonly confirmations?: number }) => T>

/**
 * Makes proofs for each network whose nodes the configuration names, whoever settles there. They are loaded at a network's first
 * use: most installations have few.
 *
 * @returns undefined for a network without nodes
 */
export function onNetworks<T>(
  { networks }: Pick<Config, 'networks'>,
  { clock, log, rpcTimeoutMs = RPC_TIMEOUT_MS }: ProofParts,
  load: { readonly evm: Load<T>; readonly solana: Load<T> },
): (network: NetworkId) => Promise<T> | undefined {
  const opened = new Map<NetworkId, Promise<T>>()
  async function open(network: NetworkId, { rpcUrls, confirmations }: NetworkConfig): Promise<T> {
    const create = await (familyOf(network) === 'solana' ? load.solana : load.evm)()
    return create({ network, rpcUrls, confirmations, rpcTimeoutMs, clock, log })
  }
  return (network) => {
    const config = networks[network]
    if (config === undefined || config.rpcUrls.length === 0) return undefined
    let one = opened.get(network)
    if (one === undefined) opened.set(network, (one = open(network, config)))
    return one
  }
}
