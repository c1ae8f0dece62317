import { canonicalAddress } from '../domain/address.ts'
import type { ChannelConfig, ChannelId } from '../domain/channel.ts'
import {
  BATCH_SETTLEMENT_ADDRESS,
  ERC3009_COLLECTOR_ADDRESS,
  PERMIT2_COLLECTOR_ADDRESS,
} from '../domain/channelHashes.ts'
import { checksumAddress, keccak256 } from '../evm/hex.ts'
import { permit2Address } from '../evm/permit2.ts'
import type { DepositAuthorization, Erc3009Deposit, Permit2Deposit } from './channelPayment.ts'
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

/** What the payer signs for a deposit by ERC-3009 (EIP-712). Only the collector's contract can use it, and only for this channel. */
export const depositTypedData = (
  { asset }: Pick<OfferTerms, 'asset'>,
  id: ChannelId,
  payer: string,
  { amount, validAfter, validBefore, salt }: Omit<Erc3009Deposit, 'signature'>,
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

/** The fields of the permit for a deposit by Permit2. Only the collector's contract can use it, and only for this channel. */
export const depositPermitOf = (
  { asset }: Pick<OfferTerms, 'asset'>,
  id: ChannelId,
  payer: string,
  amount: bigint,
  nonce: bigint,
): Permit2Deposit['permit2'] => ({
  from: payer.toLowerCase(),
  token: asset.address.toLowerCase(),
  amount,
  spender: PERMIT2_COLLECTOR_ADDRESS,
  nonce,
  channelId: id,
})

/** What the payer signs for a deposit by Permit2 (EIP-712). */
export const permit2DepositTypedData = (
  network: string,
  { validBefore, permit2 }: Pick<Permit2Deposit, 'validBefore' | 'permit2'>,
) => ({
  domain: {
    name: 'Permit2',
    chainId: Number(network.slice('eip155:'.length)),
    verifyingContract: checksumAddress(permit2Address) as `0x${string}`,
  },
  types: {
    PermitWitnessTransferFrom: [
      { name: 'permitted', type: 'TokenPermissions' },
      { name: 'spender', type: 'address' },
      { name: 'nonce', type: 'uint256' },
      { name: 'deadline', type: 'uint256' },
      { name: 'witness', type: 'DepositWitness' },
    ],
    TokenPermissions: [
      { name: 'token', type: 'address' },
      { name: 'amount', type: 'uint256' },
    ],
    DepositWitness: [{ name: 'channelId', type: 'bytes32' }],
  },
  primaryType: 'PermitWitnessTransferFrom' as const,
  message: {
    permitted: { token: checksumAddress(permit2.token), amount: String(permit2.amount) },
    spender: checksumAddress(permit2.spender),
    nonce: String(permit2.nonce),
    deadline: String(validBefore),
    witness: { channelId: permit2.channelId },
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
      authorization:
        'permit2' in deposit
          ? { permit2Authorization: permit2Fields(deposit) }
          : { erc3009Authorization: erc3009Fields(deposit) },
    },
  }),
})

const erc3009Fields = ({ validAfter, validBefore, salt, signature }: Erc3009Deposit) => ({
  validAfter: String(validAfter),
  validBefore: String(validBefore),
  salt: `0x${salt.toString(16).padStart(64, '0')}`,
  signature,
})

const permit2Fields = ({ validBefore, signature, permit2 }: Permit2Deposit) => ({
  from: checksumAddress(permit2.from),
  permitted: { token: checksumAddress(permit2.token), amount: String(permit2.amount) },
  spender: checksumAddress(permit2.spender),
  nonce: String(permit2.nonce),
  deadline: String(validBefore),
  witness: { channelId: permit2.channelId },
  signature,
})

/** The addresses with their checksums, because other servers may compare them as text with the offer. */
const checksummed = ({ payer, payerAuthorizer, receiver, receiverAuthorizer, token }: ChannelConfig) => ({
  payer: checksumAddress(payer),
  payerAuthorizer: checksumAddress(payerAuthorizer),
  receiver: checksumAddress(receiver),
  receiverAuthorizer: checksumAddress(receiverAuthorizer),
  token: checksumAddress(token),
})
