import { claimable } from '../../../../core/domain/channel.ts'
import { ChannelHashes } from '../../../../core/domain/channelHashes.ts'
import type { NetworkId } from '../../../../core/domain/network.ts'
import { reading } from '../../../../core/evm/token.ts'
import type { ChannelChain } from '../../../../core/ports/chains/channelChain.ts'
import type { ContractCall, Settler } from '../../../../core/ports/chains/settler.ts'
import { RpcUnreachable } from '../../../../core/rpc/post.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { recoverSigner } from '../check/authorization.ts'
import { chainIdOf, type Hex } from '../rpc/nodes.ts'
import { addressOfKey, secp256k1 } from '../settle/transaction.ts'
import {
  claimCall,
  erc3009DepositCall,
  receiverCall,
  refundCall,
  settleCall,
  stateCalls,
  stateIn,
  together,
  unsettledIn,
} from './calls.ts'
import { Permit2Deposits } from './permit2Deposits.ts'

/** As authorizer, it means that the payer itself has to sign. Such channels are not accepted. */
const zeroAddress = `0x${'0'.repeat(40)}`

export interface EvmChannelChainOptions {
  readonly network: NetworkId
  readonly rpc: Rpc
  /**
   * Keys that sign claims and refunds, 0x and 64 hex digits each. The first is offered. The others are of earlier configurations,
   * and still sign for their channels.
   */
  readonly authorizerKeys: readonly string[]
  readonly settler: Pick<Settler, 'transact'>
}

/** Payment channels by the contract at {@link BATCH_SETTLEMENT_ADDRESS}, with the network's settling keys. */
export function createEvmChannelChain(options: EvmChannelChainOptions): ChannelChain {
  const { network, rpc, authorizerKeys, settler } = options
  const hashes = new ChannelHashes(chainIdOf(network))
  const byPermit2 = new Permit2Deposits(rpc, chainIdOf(network))
  const keys = new Map(
    authorizerKeys.map((text) => {
      const key = Buffer.from(text.slice(2), 'hex')
      return [addressOfKey(key), key] as const
    }),
  )
  const [authorizer] = keys.keys()

  function sign(by: string, digest: Uint8Array): Hex {
    const { signature, recovery } = secp256k1.sign(digest, keys.get(by)!)
    return `0x${Buffer.from(signature).toString('hex')}${(27 + recovery).toString(16)}`
  }

  const claimOf = (channels: Parameters<ChannelChain['claim']>[0]): ContractCall => {
    const entries = channels.map((channel) => ({
      channelId: channel.id,
      maxClaimableAmount: channel.signed,
      totalClaimed: claimable(channel),
    }))
    const by = channels[0]!.config.receiverAuthorizer
    return claimCall(channels, sign(by, hashes.claimBatchDigest(entries)))
  }

  return {
    network,
    authorizer: authorizer!,
    signsFor: (account) => keys.has(account),
    channelId: (config) => hashes.channelId(config),

    isSigned(account, channelId, maxClaimable, signature) {
      // The contract accepts no other `v`, and an unclaimable voucher would make a whole batch of claims revert.
      if (account === zeroAddress || !(signature.endsWith('1b') || signature.endsWith('1c'))) return false
      return recoverSigner(hashes.voucherDigest(channelId, maxClaimable), signature) === account
    },

    async read(ids) {
      const calls = ids.flatMap((id) => stateCalls(id).map((call) => reading(call)))
      const responses = await rpc.many(calls)
      return ids.map((_, i) => {
        const results = responses.slice(3 * i, 3 * i + 3).map((response) => {
          if (!response?.ok) throw new RpcUnreachable(`the state of a channel on ${network} cannot be read`)
          return response.result
        })
        return stateIn(results)
      })
    },

    async unsettled(payees) {
      const calls = payees.map(({ receiver, token }) => reading(receiverCall(receiver, token)))
      const responses = await rpc.many(calls)
      return payees.map(({ receiver }, i) => {
        const response = responses[i]
        if (!response?.ok) throw new RpcUnreachable(`the payouts of ${receiver} on ${network} cannot be read`)
        return unsettledIn(response.result)
      })
    },

    async deposit(config, deposit, storeId) {
      if (!('permit2' in deposit)) return settler.transact!(erc3009DepositCall(config, deposit), storeId)
      try {
        const transact = (call: ContractCall) => settler.transact!(call, storeId)
        return await byPermit2.make(config, hashes.channelId(config), deposit, transact)
      } catch {
        return { status: 'refused', isRevert: false, message: 'The gateway cannot query the chain now.' }
      }
    },

    claim(channels, isSettled = true) {
      const payees = new Map(
        channels.map(({ config: { receiver, token } }) => [`${receiver} ${token}`, { receiver, token }]),
      )
      const settles = isSettled ? [...payees.values()].map((one) => settleCall(one.receiver, one.token)) : []
      return settler.transact!(together([claimOf(channels), ...settles]), null)
    },

    refund({ channel, amount }, isSettled = true) {
      const { id, config, refundNonce, charged, totalClaimed, storeId } = channel
      const digest = hashes.refundDigest(id, refundNonce, amount)
      const refund = refundCall(config, amount, refundNonce, sign(config.receiverAuthorizer, digest))
      const claims = charged > totalClaimed ? [claimOf([channel])] : []
      // After the last refund of a seller's channels, there is no claim that would pay the seller.
      const settles = isSettled && claims.length > 0 ? [settleCall(config.receiver, config.token)] : []
      return settler.transact!(together([...claims, ...settles, refund]), storeId)
    },
  }
}
