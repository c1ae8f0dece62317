import type { Channel, ChannelConfig, ChannelId, ChannelOnChain } from '../../domain/channel.ts'
import type { StoreId } from '../../domain/link.ts'
import type { AtomicAmount } from '../../domain/money.ts'
import type { NetworkId } from '../../domain/network.ts'
import type { DepositAuthorization } from '../../x402/channelPayment.ts'
import type { TransactOutcome } from './settler.ts'

/** A refund of a channel, with the claim of what was charged before it. */
export interface ChannelRefund {
  readonly channel: Channel
  readonly amount: AtomicAmount
}

/** A seller's wallet in a token. */
export type ChannelPayee = Pick<ChannelConfig, 'receiver' | 'token'>

/** How a deposit ended. If it was refused for a known reason, this has x402's name, and fields for the response. */
export type DepositOutcome = TransactOutcome & {
  readonly reason?: string
  readonly extra?: Readonly<Record<string, unknown>>
}

/**
 * Payment channels on one chain (x402 scheme `batch-settlement`). Each transaction is sent by the network's settling keys. All of
 * them are safe to repeat: a deposit's authorization and a refund's nonce can be used once, and a claim names the total. So after a
 * crash the chain's state is read, and no transaction has to be stored.
 */
export interface ChannelChain {
  readonly network: NetworkId
  /** The account that this gateway names as `receiverAuthorizer` in offers, in lower case. */
  readonly authorizer: string
  /** Whether this gateway can sign for channels with this authorizer, which may be one of an earlier configuration. */
  signsFor(authorizer: string): boolean
  channelId(config: ChannelConfig): ChannelId
  /**
   * Whether the account has signed the voucher, by the contract's rules: plain ECDSA, 65 bytes, `s` in the lower half, `v` 27 or 28.
   *
   * @param signature lower-case hex
   */
  isSigned(authorizer: string, channelId: ChannelId, maxClaimable: AtomicAmount, signature: string): boolean
  /** The states in the newest block, in order. Rejects if no node responds. */
  read(ids: readonly ChannelId[]): Promise<ChannelOnChain[]>
  /** What was claimed for each payee and is not paid out to it yet, in order. Rejects if no node responds. */
  unsettled(payees: readonly ChannelPayee[]): Promise<AtomicAmount[]>
  /** Checks, simulates and sends a deposit, and waits for its block. The gas counts for the store. */
  deposit(config: ChannelConfig, deposit: DepositAuthorization, storeId: StoreId): Promise<DepositOutcome>
  /**
   * Claims what the channels were charged, and pays it out to their receivers, in one transaction. All channels have the same
   * authorizer.
   *
   * @param settles false to leave the money in the contract, where any account can pay it out to the receivers
   */
  claim(channels: readonly Channel[], settles?: boolean): Promise<TransactOutcome>
  /**
   * Claims what the channel was charged, pays it out to the receiver, and refunds, in one transaction.
   *
   * @param settles false to leave what was claimed in the contract, as for {@link claim}
   */
  refund(refund: ChannelRefund, settles?: boolean): Promise<TransactOutcome>
}
