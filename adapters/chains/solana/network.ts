import type { Settler } from '../../../core/ports/chains/settler.ts'
import {
  type Embedded,
  type Network,
  type NetworkOptions,
  once,
  PROOF_RPC_TIMEOUT_MS,
  SEARCH_RPC_TIMEOUT_MS,
  settlerOptionsOf,
} from '../network.ts'
import type { SolanaProofsOptions } from './rpc/nodes.ts'

/** One Solana cluster. */
export class SolanaNetwork implements Network {
  readonly #options: NetworkOptions

  constructor(options: NetworkOptions) {
    this.#options = options
  }

  async settler(choice: Embedded): Promise<Settler> {
    const { settleTimeoutMs, wsUrl } = this.#options.config
    const { createSolanaSettler } = await import('./settler.ts')
    return createSolanaSettler({
      ...settlerOptionsOf(this.#options, choice, 9),
      ...(wsUrl !== undefined && { wsUrl }),
      maxComputeUnits: choice.maxComputeUnits,
      maxMicroLamportsPerUnit: choice.maxMicroLamportsPerUnit,
      ...(settleTimeoutMs !== undefined && { confirmTimeoutMs: settleTimeoutMs }),
    })
  }

  readonly transferProofs = once(async () => {
    const { createSolanaTransferProofs } = await import('./prove/transferProofs.ts')
    return createSolanaTransferProofs(this.#proofsWithin(PROOF_RPC_TIMEOUT_MS))
  })

  readonly refundProofs = once(async () => {
    const { createSolanaRefundProofs } = await import('./prove/refundProofs.ts')
    return createSolanaRefundProofs(this.#proofsWithin(PROOF_RPC_TIMEOUT_MS))
  })

  readonly pastSettlements = once(async () => {
    const { createSolanaPastSettlements } = await import('./prove/pastSettlements.ts')
    return createSolanaPastSettlements(this.#proofsWithin(SEARCH_RPC_TIMEOUT_MS))
  })

  readonly payers = once(async () => {
    const { createSolanaPayers } = await import('./check/payers.ts')
    return createSolanaPayers(this.#proofsWithin(PROOF_RPC_TIMEOUT_MS))
  })

  #proofsWithin(rpcTimeoutMs: number): SolanaProofsOptions & Pick<NetworkOptions, 'clock' | 'log'> {
    const { network, config, clock, log } = this.#options
    return { network, rpcUrls: config.rpcUrls, clock, log, rpcTimeoutMs }
  }
}
