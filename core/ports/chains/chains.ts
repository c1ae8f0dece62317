import type { Asset } from '../../domain/asset.ts'
import type { NetworkId } from '../../domain/network.ts'
import type { Settler } from './settler.ts'

/** The networks on which buyers can pay, and the accepted assets in the order of the offer. */
export interface Chains {
  readonly assets: readonly Asset[]
  /** One settler for each network on which payments can be settled now. */
  readonly settlers: readonly Settler[]
  /** The settler of a network, if it settles the scheme. @param scheme x402 scheme. `exact` if absent */
  settler(network: NetworkId, scheme?: string): Settler | undefined
}
