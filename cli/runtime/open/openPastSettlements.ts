import type { Config } from '../../../core/config/types.ts'
import type { PastSettlements } from '../../../core/ports/chains/pastSettlements.ts'
import { onNetworks, type ProofParts } from '../onNetworks.ts'

/** Nobody waits for a look at days of blocks, and a node may have much to search for one answer. */
const RPC_TIMEOUT_MS = 20_000

/** Makes the look at what was settled over the nodes that the configuration names, a network's own at its first use. */
export function openPastSettlements(config: Pick<Config, 'networks'>, parts: ProofParts): PastSettlements {
  const pastOn = onNetworks<PastSettlements>(
    config,
    { ...parts, rpcTimeoutMs: RPC_TIMEOUT_MS },
    {
      evm: async () =>
        (await import('../../../adapters/chains/evm/prove/createEvmPastSettlements.ts'))
          .createEvmPastSettlements,
      solana: async () =>
        (await import('../../../adapters/chains/solana/prove/createSolanaPastSettlements.ts'))
          .createSolanaPastSettlements,
    },
  )
  return {
    async look(network, question) {
      const past = await pastOn(network)
      return past?.look(network, question) ?? { status: 'not_configured' }
    },
  }
}
