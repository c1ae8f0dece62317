import { canonicalAddress } from '../domain/address.ts'
import type { ChannelConfig, ChannelId } from '../domain/channel.ts'
import { BATCH_SETTLEMENT_ADDRESS, ERC3009_COLLECTOR_ADDRESS } from '../domain/channelHashes.ts'
import { checksumAddress, keccak256 } from '../evm/hex.ts'
import type { DepositAuthorization } from './channelPayment.ts'
import type { OfferTerms } from './offerTerms.ts'

/** Shortest and longest time that a buyer accepts until its own withdrawal, in seconds. */
const MIN_WITHDRAW_DELAY_SECONDS = 900
const MAX_WITHDRAW_DELAY_SECONDS = 2_592_000

/**
 * The salt of every channel that a buyer opens, as in the reference client. A buyer that has lost its records finds the channel again
 * by the offer's terms.
 */
const CHANNEL_SALT = `0x${'00'.repeat(32)}`

/** Why a channel by these terms must not be opened, as a message. Undefined if it may be opened. */
export function channelTermsFault(extra: OfferTerms['extra']): string | undefined {
  const { receiverAuthorizer, withdrawDelay } = extra
  const authorizer = canonicalAddress('eip155', receiverAuthorizer)
  if (authorizer === undefined || BigInt(authorizer) === 0n)
    return 'extra.receiverAuthorizer is not an address of 20 bytes above zero, so the seller could refund nothing'
  const isDelay =
    Number.isInteger(withdrawDelay) &&
    (withdrawDelay as number) >= MIN_WITHDRAW_DELAY_SECONDS &&
    (withdrawDelay as number) <= MAX_WITHDRAW_DELAY_SECONDS
  return isDelay ? undefined : 'extra.withdrawDelay is not a number of seconds from 15 minutes to 30 days'
}

/** The channel of a payer by terms that {@link channelTermsFault} has accepted. The payer signs the vouchers itself. */
export function channelConfigOf({ asset, payTo, extra }: OfferTerms, payer: string): ChannelConfig {
  const account = payer.toLowerCase()
  return {
    payer: account,
    payerAuthorizer: account,
    receiver: payTo.toLowerCase(),
    receiverAuthorizer: String(extra['receiverAuthorizer']).toLowerCase(),
    token: asset.address.toLowerCase(),
    withdrawDelay: extra['withdrawDelay'] as number,
    salt: CHANNEL_SALT,
  }
}

/** The ERC-3009 nonce of a deposit, by which the token shows whether the deposit is on chain. 32 bytes in hex. */
export const depositNonce = (id: ChannelId, salt: bigint): string =>
  `0x${Buffer.from(keccak256(Buffer.from(id.slice(2) + salt.toString(16).padStart(64, '0'), 'hex'))).toString('hex')}`

/** What the payer signs for a deposit (EIP-712). Only the collector's contract can use it, and only for this channel. */
export const depositTypedData = (
  { asset }: Pick<OfferTerms, 'asset'>,
  id: ChannelId,
  payer: string,
  { amount, validAfter, validBefore, salt }: Omit<DepositAuthorization, 'signature'>,
) => ({
  domain: {
    name: asset.eip712!.name,
    version: asset.eip712!.version,
    chainId: Number(asset.network.slice('eip155:'.length)),
    verifyingContract: checksumAddress(asset.address.toLowerCase()) as `0x${string}`,
  },
  types: {
    ReceiveWithAuthorization: [
      { name: 'from', type: 'address' },
      { name: 'to', type: 'address' },
      { name: 'value', type: 'uint256' },
      { name: 'validAfter', type: 'uint256' },
      { name: 'validBefore', type: 'uint256' },
      { name: 'nonce', type: 'bytes32' },
    ],
  },
  primaryType: 'ReceiveWithAuthorization' as const,
  message: {
    from: payer,
    to: checksumAddress(ERC3009_COLLECTOR_ADDRESS),
    value: String(amount),
    validAfter: String(validAfter),
    validBefore: String(validBefore),
    nonce: depositNonce(id, salt),
  },
})

/** What the payer signs for a voucher (EIP-712). */
export const voucherTypedData = (network: string, id: ChannelId, totalAtomic: bigint) => ({
  domain: {
    name: 'x402 Batch Settlement',
    version: '1',
    chainId: Number(network.slice('eip155:'.length)),
    verifyingContract: checksumAddress(BATCH_SETTLEMENT_ADDRESS) as `0x${string}`,
  },
  types: {
    Voucher: [
      { name: 'channelId', type: 'bytes32' },
      { name: 'maxClaimableAmount', type: 'uint128' },
    ],
  },
  primaryType: 'Voucher' as const,
  message: { channelId: id, maxClaimableAmount: String(totalAtomic) },
})

/** The x402 `payload` of a call by a channel. */
export const channelPayload = (
  type: 'voucher' | 'deposit' | 'refund',
  config: ChannelConfig,
  voucher: { readonly channelId: ChannelId; readonly maxClaimable: bigint; readonly signature: string },
  deposit: DepositAuthorization | null = null,
): Readonly<Record<string, unknown>> => ({
  type,
  channelConfig: { ...config, ...checksummed(config) },
  voucher: {
    channelId: voucher.channelId,
    maxClaimableAmount: String(voucher.maxClaimable),
    signature: voucher.signature,
  },
  ...(deposit !== null && {
    deposit: {
      amount: String(deposit.amount),
      authorization: {
        erc3009Authorization: {
          validAfter: String(deposit.validAfter),
          validBefore: String(deposit.validBefore),
          salt: `0x${deposit.salt.toString(16).padStart(64, '0')}`,
          signature: deposit.signature,
        },
      },
    },
  }),
})

/** The addresses with their checksums, because other servers may compare them as text with the offer. */
const checksummed = ({ payer, payerAuthorizer, receiver, receiverAuthorizer, token }: ChannelConfig) => ({
  payer: checksumAddress(payer),
  payerAuthorizer: checksumAddress(payerAuthorizer),
  receiver: checksumAddress(receiver),
  receiverAuthorizer: checksumAddress(receiverAuthorizer),
  token: checksumAddress(token),
})
