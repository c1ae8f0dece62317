import type { ChannelId } from '../../core/domain/channel.ts'
import { BATCH_SETTLEMENT_ADDRESS } from '../../core/domain/channelHashes.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import { keccak256 } from '../../core/evm/hex.ts'
import { isPermit2Nonce, isUsedIn, permit2 } from '../../core/evm/permit2.ts'
import { type EvmCall, reading, token, wordOf } from '../../core/evm/token.ts'
import { quantity, RpcUnreachable } from '../../core/rpc/post.ts'
import type { ChannelPayment } from '../../core/x402/channelPayment.ts'
import { depositNonce } from '../../core/x402/channelTerms.ts'
import { isObject } from '../../core/x402/strictJson.ts'
import { UnpayableTerms } from '../buyer.ts'
import { createJsonRpc, publicRpcUrl, unexpected } from '../chains/jsonRpc.ts'

/** A channel in the contract. Amounts are in atomic units. */
export interface ChannelState {
  /** Deposits less refunds, withdrawals, and the withdrawal that is requested. */
  readonly balance: bigint
  readonly totalClaimed: bigint
}

/** What came of a signed deposit. `expired` means that it can no longer be used. */
export type DepositFate = 'used' | 'open' | 'expired'

const callOf = (signature: string, id: ChannelId): EvmCall => ({
  to: BATCH_SETTLEMENT_ADDRESS,
  data: `0x${Buffer.from(keccak256(Buffer.from(signature)).subarray(0, 4)).toString('hex')}${id.slice(2)}`,
})

/** Reads channels of one network by the buyer's node. */
export class ChannelReader {
  readonly #call: (method: string, params: readonly unknown[]) => Promise<unknown>

  /**
   * @param rpcUrl if undefined, the network's public node
   * @throws {UnpayableTerms} if no node is known
   */
  constructor(network: NetworkId, rpcUrl: string | undefined, signal: AbortSignal) {
    const url = rpcUrl ?? publicRpcUrl(network)
    if (url === undefined)
      throw new UnpayableTerms(`No default node is known for ${network}. Set a node with --rpc.`)
    const rpc = createJsonRpc(url, network)
    this.#call = (method, params) => rpc(method, params, signal)
  }

  /** @throws {UnpayableTerms} if the node does not respond, or the network has no such contract */
  async state(id: ChannelId): Promise<ChannelState> {
    const [channel, withdrawal] = await Promise.all([
      this.#words(callOf('channels(bytes32)', id)),
      this.#words(callOf('pendingWithdrawals(bytes32)', id)),
    ]).catch(unpayable)
    const [balance, totalClaimed] = channel!
    return { balance: balance! - withdrawal![0]!, totalClaimed: totalClaimed! }
  }

  /** @throws {UnpayableTerms} if the node does not respond */
  async depositFate({ channelId, config, deposit }: ChannelPayment): Promise<DepositFate> {
    const { validBefore } = deposit!
    try {
      // The block is read first, so that a deposit in it is seen by the second call.
      const block = await this.#call('eth_getBlockByNumber', ['latest', false])
      const nonce =
        'permit2' in deposit! ? String(deposit.permit2.nonce) : depositNonce(channelId, deposit!.salt)
      const { method, params } = reading(
        isPermit2Nonce(nonce)
          ? permit2.nonceBitmap(config.payer, nonce)
          : token.authorizationState(config.token, config.payer, nonce),
      )
      const used = wordOf(await this.#call(method, params))
      if (used === undefined || !isObject(block)) throw unexpected('eth_getBlockByNumber')
      if (isPermit2Nonce(nonce) ? isUsedIn(used, nonce) : used !== 0n) return 'used'
      // Permit2 still accepts the permit in the second of its deadline.
      const expiry = isPermit2Nonce(nonce) ? validBefore + 1n : validBefore
      return quantity(block['timestamp']) >= expiry ? 'expired' : 'open'
    } catch (error) {
      return unpayable(error)
    }
  }

  async #words(call: EvmCall): Promise<bigint[]> {
    const { method, params } = reading(call)
    const result = await this.#call(method, params)
    if (typeof result !== 'string' || !/^0x[0-9a-fA-F]{128}$/.test(result))
      throw new UnpayableTerms('The network has no contract for payment channels. Nothing was signed.')
    return [BigInt(result.slice(0, 66)), BigInt(`0x${result.slice(66)}`)]
  }
}

function unpayable(error: unknown): never {
  if (error instanceof RpcUnreachable)
    throw new UnpayableTerms(`${error.message}. Nothing was signed.`, { cause: error })
  throw error
}
