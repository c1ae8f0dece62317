import type { Asset } from '../../domain/asset.ts'
import type { NetworkId } from '../../domain/network.ts'
import type { Settler } from './settler.ts'

/** The networks that can be paid on, and the assets taken there, in the order in which they are offered. */
export interface Chains {
  readonly assets: readonly Asset[]
  /** One for each scheme of a network that can be settled on now. */
  readonly settlers: readonly Settler[]
  /** @param scheme of x402; `exact` when absent */
  settler(network: NetworkId, scheme?: string): Settler | undefined
}
