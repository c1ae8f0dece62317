import type { Config } from '../../../core/config/types.ts'
import { familyOf, type NetworkId } from '../../../core/domain/network.ts'
import type { Payers } from '../../../core/ports/chains/payers.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'

export interface PayersParts {
  readonly clock: Clock
  readonly log: Log
}

/** Looks at payers over the nodes that the configuration names, whoever settles on a network; each is loaded when it is asked. */
export function openPayers({ networks }: Config, { clock, log }: PayersParts): Payers {
  const opened = new Map<NetworkId, Promise<Payers>>()

  const openOn = async (network: NetworkId, rpcUrls: readonly string[]): Promise<Payers> => {
    const { createSolanaPayers } = await import('../../../adapters/chains/solana/check/createSolanaPayers.ts')
    return createSolanaPayers({ network, rpcUrls, clock, log })
  }

  return {
    async look(asset, address) {
      const { network } = asset
      const rpcUrls = networks[network]?.rpcUrls ?? []
      if (rpcUrls.length === 0 || familyOf(network) !== 'solana') return undefined
      const payers = opened.get(network) ?? openOn(network, rpcUrls)
      opened.set(network, payers)
      return (await payers).look(asset, address)
    },
  }
}
