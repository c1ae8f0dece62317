import type { Config } from '../../../core/config/types.ts'
import type { RefundProofs } from '../../../core/ports/chains/refundProofs.ts'
import { onNetworks, type ProofParts } from '../onNetworks.ts'

/** Makes the proof of refunds over the nodes that the configuration names, a network's own at its first use. */
export function openRefundProofs(config: Config, parts: ProofParts): RefundProofs {
  const proofsOn = onNetworks<RefundProofs>(config, parts, {
    evm: async () =>
      (await import('../../../adapters/chains/evm/prove/createEvmRefundProofs.ts')).createEvmRefundProofs,
    solana: async () =>
      (await import('../../../adapters/chains/solana/prove/createSolanaRefundProofs.ts'))
        .createSolanaRefundProofs,
  })
  return {
    async prove(transfer) {
      const proofs = await proofsOn(transfer.network)
      return proofs?.prove(transfer) ?? { status: 'not_configured' }
    },
  }
}
