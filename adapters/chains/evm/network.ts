import { feeDefaultsOf } from '../../../core/domain/network.ts'
import { isLoopback } from '../../../core/http/caller.ts'
import type { ChannelChain } from '../../../core/ports/chains/channelChain.ts'
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
import { type EvmNodes, openNodes } from './rpc/nodes.ts'

const weiOf = (gwei: number): bigint => BigInt(Math.round(gwei * 1e9))

/** One EVM chain. */
export class EvmNetwork implements Network {
  readonly #options: NetworkOptions
  readonly #proofNodes = once(async () => this.#nodesWithin(PROOF_RPC_TIMEOUT_MS))

  constructor(options: NetworkOptions) {
    this.#options = options
  }

  async settler(choice: Embedded): Promise<Settler> {
    const { network, config } = this.#options
    const { rpcUrls, confirmations, settleTimeoutMs, wsUrl } = config
    const fees = feeDefaultsOf(network)
    const { maxGasPerStoreAndDay = fees.maxGasPerStoreAndDay } = choice
    const { createEvmSettler } = await import('./settler.ts')
    return createEvmSettler({
      ...settlerOptionsOf(this.#options, { ...choice, maxGasPerStoreAndDay }, 18),
      confirmations,
      wsUrl,
      maxGas: choice.maxGas,
      maxPaymentsPerTransaction: choice.maxPaymentsPerTransaction,
      batchWindowMs: choice.batchWindowMs,
      maxFeePerGasWei: weiOf(choice.maxFeePerGasGwei ?? fees.maxFeePerGasGwei),
      maxPriorityFeePerGasWei: weiOf(choice.priorityFeePerGasGwei ?? fees.priorityFeePerGasGwei),
      factories: choice.factories,
      // A node on this machine may be a test chain, which makes blocks only for transactions. So its newest block may be old.
      ...(rpcUrls.every((url) => isLoopback(new URL(url).hostname)) && {
        staleHeadMs: Number.POSITIVE_INFINITY,
      }),
      ...(settleTimeoutMs !== undefined && { receiptTimeoutMs: settleTimeoutMs }),
    })
  }

  readonly transferProofs = once(async () => {
    const { createEvmTransferProofs } = await import('./prove/transferProofs.ts')
    return createEvmTransferProofs(await this.#proofNodes())
  })

  readonly refundProofs = once(async () => {
    const { createEvmRefundProofs } = await import('./prove/refundProofs.ts')
    return createEvmRefundProofs(await this.#proofNodes())
  })

  readonly pastSettlements = once(async () => {
    const { createEvmPastSettlements } = await import('./prove/pastSettlements.ts')
    return createEvmPastSettlements(this.#nodesWithin(SEARCH_RPC_TIMEOUT_MS))
  })

  async channelChain(
    authorizerKeys: readonly string[],
    settler: Pick<Settler, 'transact'>,
  ): Promise<ChannelChain> {
    const { createEvmChannelChain } = await import('./channels/channelChain.ts')
    const { network } = this.#options
    const { rpc } = await this.#proofNodes()
    return createEvmChannelChain({ network, rpc, authorizerKeys, settler })
  }

  #nodesWithin(rpcTimeoutMs: number): EvmNodes {
    const { network, config, clock, log } = this.#options
    const { rpcUrls, confirmations } = config
    return openNodes({ network, rpcUrls, confirmations, clock, log, rpcTimeoutMs })
  }
}
