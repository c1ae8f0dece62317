import type { StoreId } from './link.ts'
import type { AtomicAmount } from './money.ts'
import type { NetworkId } from './network.ts'

/** The x402 scheme of payment channels. */
export const channelScheme = 'batch-settlement'

/** Id of a payment channel, which is the EIP-712 hash of its config: 0x and 64 hex digits in lower case. */
export type ChannelId = string

/**
 * The terms of a payment channel (x402 scheme `batch-settlement`), which never change. A change of any field is another channel.
 * Addresses and the salt are in lower case.
 */
export interface ChannelConfig {
  /** The wallet that deposits, and that gets what is left. */
  readonly payer: string
  /** The account that signs vouchers by plain ECDSA. */
  readonly payerAuthorizer: string
  /** The seller's wallet. */
  readonly receiver: string
  /** The gateway's account that signs claims and refunds. It can move money only to the receiver and back to the payer. */
  readonly receiverAuthorizer: string
  readonly token: string
  /** Time between the payer's request to withdraw and the withdrawal, in seconds. */
  readonly withdrawDelay: number
  /** Distinguishes channels that are otherwise the same. */
  readonly salt: string
}

/** The state of a channel in the contract. Amounts are in atomic units of its token. */
export interface ChannelOnChain {
  /** Deposits less refunds and withdrawals. Claims do not lower it. */
  readonly balance: AtomicAmount
  /** Total of all claims, at most the balance. */
  readonly totalClaimed: AtomicAmount
  /** Amount that the payer has requested to withdraw. 0 if there is no request. */
  readonly pendingWithdrawal: AtomicAmount
  /** When the payer requested the withdrawal, in seconds since 1970. 0 if there is no request. */
  readonly withdrawRequestedAtSeconds: number
  readonly refundNonce: bigint
}

/** A refund that was signed and sent. The contract accepts one refund with its nonce. */
export interface SentRefund {
  readonly nonce: bigint
  readonly amount: AtomicAmount
}

/** A channel as the database has it. */
export interface Channel extends ChannelOnChain {
  readonly id: ChannelId
  readonly network: NetworkId
  readonly storeId: StoreId
  readonly config: ChannelConfig
  /** Total of all charged calls. */
  readonly charged: AtomicAmount
  /**
   * Total of the voucher by which the channel is claimed, at least what is charged. It is more if a call has used less than its voucher
   * allows.
   */
  readonly signed: AtomicAmount
  /** Signature of that voucher, 65 bytes in lower-case hex. Null until a call was charged, and `signed` is what is charged then. */
  readonly signature: string | null
  /** Total of the newest voucher that a claim has published, so that others can send it. Null if there was no claim. */
  readonly published: AtomicAmount | null
}

/** Whether a claim has published the voucher of this total. Its sender may be another than the payer. */
export const isPublic = (
  { totalClaimed, published }: Pick<Channel, 'totalClaimed' | 'published'>,
  voucherTotal: AtomicAmount,
): boolean => voucherTotal <= totalClaimed || voucherTotal === published

/**
 * The channel after a call was charged. It keeps the voucher that it has as long as this voucher allows the total. A voucher that is
 * replaced is then below the total, so it can pay for nothing more, and the only published voucher above the total is the kept one.
 *
 * @param charged the new total, at most the total of the voucher
 */
export function afterCharge<C extends Pick<Channel, 'charged' | 'signed' | 'signature'>>(
  channel: C,
  charged: AtomicAmount,
  voucher: { readonly maxClaimable: AtomicAmount; readonly signature: string },
): C {
  if (charged <= channel.signed) return { ...channel, charged }
  return { ...channel, charged, signed: voucher.maxClaimable, signature: voucher.signature }
}

/** The channel with a state of the contract. If that has claimed more than was charged, the database was restored from a copy. */
export function withState(channel: Channel, state: ChannelOnChain): Channel {
  const { totalClaimed } = state
  const { charged, signed, published } = channel
  const isBehind = totalClaimed > charged
  return {
    ...channel,
    ...state,
    published: totalClaimed > channel.totalClaimed ? signed : published,
    ...(isBehind && { charged: totalClaimed, signed: totalClaimed, signature: null }),
  }
}

/** The total that the contract would accept as claimed, in atomic units. The balance is lower than the vouchers if a deposit has left the chain. */
export const claimable = ({ balance, charged }: Channel): AtomicAmount =>
  charged < balance ? charged : balance

/**
 * The part of the total that cannot be claimed, because the balance is gone: the payer has withdrawn it, or its deposit has left the
 * chain. In atomic units.
 */
export const writtenOff = ({ balance, charged }: Pick<Channel, 'balance' | 'charged'>): AtomicAmount =>
  charged > balance ? charged - balance : 0n

/** How long a claimed channel is read from the chain, in ms, because the block of the claim may leave the chain. */
export const CLAIM_RECHECK_MS = 600_000

/** The part of the total that a claim would pay, in atomic units. */
export const unclaimed = (channel: Pick<Channel, 'balance' | 'charged' | 'totalClaimed'>): AtomicAmount =>
  channel.charged - channel.totalClaimed - writtenOff(channel)
