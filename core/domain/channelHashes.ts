import { keccak256 } from '../evm/hex.ts'
import { addressWord } from '../evm/token.ts'
import type { ChannelConfig } from './channel.ts'

/** The contract of x402's payment channels, which has the same address on every EVM chain. */
export const BATCH_SETTLEMENT_ADDRESS = '0x4020074e9df2ce1dee5a9c1b5c3f541d02a10003'
/** The contract that pulls a deposit by ERC-3009 `receiveWithAuthorization`. */
export const ERC3009_COLLECTOR_ADDRESS = '0x4020806089470a89826cb9fb1f4059150b550004'
/** The contract that pulls a deposit by Permit2. */
export const PERMIT2_COLLECTOR_ADDRESS = '0x4020425faf3b746c082c2f942b4e5159887b0005'

const hashOf = (hex: string): string => Buffer.from(keccak256(Buffer.from(hex, 'hex'))).toString('hex')
const textHash = (text: string): string => Buffer.from(keccak256(Buffer.from(text, 'utf8'))).toString('hex')
const uintHex = (value: bigint | number): string => value.toString(16).padStart(64, '0')

const domainType = textHash(
  'EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)',
)
const configType = textHash(
  'ChannelConfig(address payer,address payerAuthorizer,address receiver,address receiverAuthorizer,address token,uint40 withdrawDelay,bytes32 salt)',
)
const voucherType = textHash('Voucher(bytes32 channelId,uint128 maxClaimableAmount)')
const refundType = textHash('Refund(bytes32 channelId,uint256 nonce,uint128 amount)')
const claimEntryType = 'ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)'
const claimEntryTypeHash = textHash(claimEntryType)
const claimBatchType = textHash(`ClaimBatch(ClaimEntry[] claims)${claimEntryType}`)

/** One channel of a batch of claims. */
export interface ClaimEntry {
  readonly channelId: string
  /** The amount that the voucher signs. */
  readonly maxClaimableAmount: bigint
  /** The channel's total after the claim, at most `maxClaimableAmount`. */
  readonly totalClaimed: bigint
}

/**
 * The EIP-712 hashes of x402's payment channels on one chain. Ids and digests are the contract's own (`getChannelId`,
 * `getVoucherDigest`, `getRefundDigest`, `getClaimBatchDigest`).
 *
 * @see https://eips.ethereum.org/EIPS/eip-712
 */
export class ChannelHashes {
  readonly #prefix: string

  constructor(chainId: number) {
    const domain =
      domainType +
      textHash('x402 Batch Settlement') +
      textHash('1') +
      uintHex(chainId) +
      addressWord(BATCH_SETTLEMENT_ADDRESS)
    this.#prefix = `1901${hashOf(domain)}`
  }

  /** 0x and 64 hex digits in lower case. */
  channelId(config: ChannelConfig): string {
    return `0x${Buffer.from(this.#digest(configType + configWords(config))).toString('hex')}`
  }

  /** The 32 bytes that the payer's authorizer signs for a voucher. */
  voucherDigest(channelId: string, maxClaimableAmount: bigint): Uint8Array {
    return this.#digest(voucherType + channelId.slice(2) + uintHex(maxClaimableAmount))
  }

  /** The 32 bytes that the receiver's authorizer signs for a refund. */
  refundDigest(channelId: string, nonce: bigint, amount: bigint): Uint8Array {
    return this.#digest(refundType + channelId.slice(2) + uintHex(nonce) + uintHex(amount))
  }

  /** The 32 bytes that the receiver's authorizer signs for a batch of claims. */
  claimBatchDigest(claims: readonly ClaimEntry[]): Uint8Array {
    const entries = claims.map(({ channelId, maxClaimableAmount, totalClaimed }) =>
      hashOf(claimEntryTypeHash + channelId.slice(2) + uintHex(maxClaimableAmount) + uintHex(totalClaimed)),
    )
    return this.#digest(claimBatchType + hashOf(entries.join('')))
  }

  #digest(struct: string): Uint8Array {
    return keccak256(Buffer.from(this.#prefix + hashOf(struct), 'hex'))
  }
}

/** A channel's config as seven words of a call, in hex without 0x. */
export const configWords = (config: ChannelConfig): string =>
  addressWord(config.payer) +
  addressWord(config.payerAuthorizer) +
  addressWord(config.receiver) +
  addressWord(config.receiverAuthorizer) +
  addressWord(config.token) +
  uintHex(config.withdrawDelay) +
  config.salt.slice(2)
