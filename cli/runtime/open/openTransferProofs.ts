import type { Config } from '../../../core/config/types.ts'
import type { TransferProofs } from '../../../core/ports/chains/transferProofs.ts'
import { onNetworks, type ProofParts } from '../onNetworks.ts'

/** Makes the proof of plain transfers over the nodes that the configuration names, a network's own at its first use. */
export function openTransferProofs(config: Config, parts: ProofParts): TransferProofs {
  const proofsOn = onNetworks<TransferProofs>(config, parts, {
    evm: async () =>
      (await import('../../../adapters/chains/evm/prove/createEvmTransferProofs.ts')).createEvmTransferProofs,
    solana: async () =>
      (await import('../../../adapters/chains/solana/prove/createSolanaTransferProofs.ts'))
        .createSolanaTransferProofs,
  })
  return {
    async prove(wanted, transaction) {
      const proofs = await proofsOn(wanted.network)
      return proofs?.prove(wanted, transaction) ?? { status: 'not_configured' }
    },
    async look(wanted) {
      const proofs = await proofsOn(wanted.network)
      return proofs?.look(wanted) ?? { status: 'not_configured' }
    },
  }
}
