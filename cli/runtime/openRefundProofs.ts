import type { Config, NetworkConfig } from '../../core/config/types.ts'
import { familyOf, type NetworkId } from '../../core/domain/network.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { RefundProofs } from '../../core/ports/refundProofs.ts'

/** Sellers' clients give up after 15 s, and a refund is two questions to a node. */
const RPC_TIMEOUT_MS = 5_000

export interface RefundProofParts {
  readonly clock: Clock
  readonly log: Log
}

/**
 * Makes the proof of refunds over the nodes that the configuration names, whoever settles on a network. A network's own
 * is loaded at its first refund: most installations see few.
 */
export function openRefundProofs({ networks }: Config, parts: RefundProofParts): RefundProofs {
  const opened = new Map<NetworkId, Promise<RefundProofs>>()

  return {
    async prove(transfer) {
      const { network } = transfer
      const config = networks[network]
      if (config === undefined || config.rpcUrls.length === 0) return { status: 'not_configured' }
      let proofs = opened.get(network)
      if (proofs === undefined) {
        proofs = openOn(network, config, parts)
        opened.set(network, proofs)
      }
      return (await proofs).prove(transfer)
    },
  }
}

async function openOn(
  network: NetworkId,
  { rpcUrls, confirmations }: NetworkConfig,
  { clock, log }: RefundProofParts,
): Promise<RefundProofs> {
  if (familyOf(network) === 'solana') {
    const { createSolanaRefundProofs } = await import(
      '../../adapters/chains/solana/prove/createSolanaRefundProofs.ts'
    )
    return createSolanaRefundProofs({ network, rpcUrls, rpcTimeoutMs: RPC_TIMEOUT_MS, clock, log })
  }
  const { createEvmRefundProofs } = await import('../../adapters/chains/evm/prove/createEvmRefundProofs.ts')
  return createEvmRefundProofs({ network, rpcUrls, confirmations, rpcTimeoutMs: RPC_TIMEOUT_MS, clock, log })
}
