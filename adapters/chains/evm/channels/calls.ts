import { decode, encode } from 'ox/AbiParameters'
import {
  type Channel,
  type ChannelConfig,
  type ChannelOnChain,
  claimable,
} from '../../../../core/domain/channel.ts'
import {
  BATCH_SETTLEMENT_ADDRESS,
  ERC3009_COLLECTOR_ADDRESS,
  PERMIT2_COLLECTOR_ADDRESS,
} from '../../../../core/domain/channelHashes.ts'
import { keccak256 } from '../../../../core/evm/hex.ts'
import type { TokenPermit } from '../../../../core/evm/permit2.ts'
import type { ContractCall } from '../../../../core/ports/chains/settler.ts'
import type { Erc3009Deposit, Permit2Deposit } from '../../../../core/x402/channelPayment.ts'
import type { Hex } from '../rpc/nodes.ts'

const configParts = [
  { name: 'payer', type: 'address' },
  { name: 'payerAuthorizer', type: 'address' },
  { name: 'receiver', type: 'address' },
  { name: 'receiverAuthorizer', type: 'address' },
  { name: 'token', type: 'address' },
  { name: 'withdrawDelay', type: 'uint40' },
  { name: 'salt', type: 'bytes32' },
] as const
const configType = '(address,address,address,address,address,uint40,bytes32)'

const claimParts = [
  {
    name: 'voucher',
    type: 'tuple',
    components: [
      { name: 'channel', type: 'tuple', components: configParts },
      { name: 'maxClaimableAmount', type: 'uint128' },
    ],
  },
  { name: 'signature', type: 'bytes' },
  { name: 'totalClaimed', type: 'uint128' },
] as const

const selectorOf = (signature: string): string =>
  Buffer.from(keccak256(Buffer.from(signature)).subarray(0, 4)).toString('hex')

const selectors = {
  multicall: selectorOf('multicall(bytes[])'),
  deposit: selectorOf(`deposit(${configType},uint128,address,bytes)`),
  claim: selectorOf(`claimWithSignature(((${configType},uint128),bytes,uint128)[],bytes)`),
  settle: selectorOf('settle(address,address)'),
  refund: selectorOf(`refundWithSignature(${configType},uint128,uint256,bytes)`),
  channels: selectorOf('channels(bytes32)'),
  pendingWithdrawals: selectorOf('pendingWithdrawals(bytes32)'),
  refundNonce: selectorOf('refundNonce(bytes32)'),
  receivers: selectorOf('receivers(address,address)'),
} as const

const dataOf = (selector: string, encoded: string): Hex => `0x${selector}${encoded.slice(2)}`
const callOf = (data: string): ContractCall => ({ to: BATCH_SETTLEMENT_ADDRESS, data })

const configOf = (config: ChannelConfig) => ({
  payer: config.payer as Hex,
  payerAuthorizer: config.payerAuthorizer as Hex,
  receiver: config.receiver as Hex,
  receiverAuthorizer: config.receiverAuthorizer as Hex,
  token: config.token as Hex,
  withdrawDelay: config.withdrawDelay,
  salt: config.salt as Hex,
})

export function erc3009DepositCall(
  config: ChannelConfig,
  { amount, validAfter, validBefore, salt, signature }: Erc3009Deposit,
): ContractCall {
  const collectorData = encode(
    [{ type: 'uint256' }, { type: 'uint256' }, { type: 'uint256' }, { type: 'bytes' }],
    [validAfter, validBefore, salt, signature as Hex],
  )
  return depositCall(config, amount, ERC3009_COLLECTOR_ADDRESS, collectorData)
}

/** @param allowance a permit of the token, which the collector submits first. It may fail, because it may have been submitted before */
export function permit2DepositCall(
  config: ChannelConfig,
  { amount, validBefore, signature, permit2: { nonce } }: Permit2Deposit,
  allowance: TokenPermit | undefined,
): ContractCall {
  const collectorData = encode(
    [{ type: 'uint256' }, { type: 'uint256' }, { type: 'bytes' }, { type: 'bytes' }],
    [nonce, validBefore, signature as Hex, allowance === undefined ? '0x' : allowanceData(amount, allowance)],
  )
  return depositCall(config, amount, PERMIT2_COLLECTOR_ADDRESS, collectorData)
}

function allowanceData(amount: bigint, { deadline, signature }: TokenPermit): Hex {
  const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130)]
  return encode(
    [{ type: 'uint256' }, { type: 'uint256' }, { type: 'uint8' }, { type: 'bytes32' }, { type: 'bytes32' }],
    [amount, BigInt(deadline), Number(`0x${v}`), `0x${r}`, `0x${s}`],
  )
}

function depositCall(
  config: ChannelConfig,
  amount: bigint,
  collector: Hex,
  collectorData: Hex,
): ContractCall {
  const encoded = encode(
    [{ type: 'tuple', components: configParts }, { type: 'uint128' }, { type: 'address' }, { type: 'bytes' }],
    [configOf(config), amount, collector, collectorData],
  )
  return callOf(dataOf(selectors.deposit, encoded))
}

/** Several calls of the contract in one. If one reverts, all do. */
export function together(calls: readonly ContractCall[]): ContractCall {
  if (calls.length === 1) return calls[0]!
  const encoded = encode([{ type: 'bytes[]' }], [calls.map(({ data }) => data as Hex)])
  return callOf(dataOf(selectors.multicall, encoded))
}

/** Claims all that the channels were charged and have. @param signature of the channels' common authorizer, over the batch */
export function claimCall(channels: readonly Channel[], signature: Hex): ContractCall {
  const claims = channels.map((channel) => ({
    voucher: { channel: configOf(channel.config), maxClaimableAmount: channel.signed },
    signature: channel.signature as Hex,
    totalClaimed: claimable(channel),
  }))
  const encoded = encode(
    [{ type: 'tuple[]', components: claimParts }, { type: 'bytes' }],
    [claims, signature],
  )
  return callOf(dataOf(selectors.claim, encoded))
}

/** Pays a receiver all that was claimed for it in a token. */
export const settleCall = (receiver: string, token: string): ContractCall =>
  callOf(
    dataOf(
      selectors.settle,
      encode([{ type: 'address' }, { type: 'address' }], [receiver as Hex, token as Hex]),
    ),
  )

/** Reads what was claimed and paid out for a receiver, for {@link unsettledIn}. */
export const receiverCall = (receiver: string, token: string): ContractCall =>
  callOf(
    dataOf(
      selectors.receivers,
      encode([{ type: 'address' }, { type: 'address' }], [receiver as Hex, token as Hex]),
    ),
  )

/** @throws if the result is not of the contract */
export function unsettledIn(result: unknown): bigint {
  const [claimed, settled] = decode([{ type: 'uint128' }, { type: 'uint128' }], result as Hex)
  return claimed - settled
}

export function refundCall(
  config: ChannelConfig,
  amount: bigint,
  nonce: bigint,
  signature: Hex,
): ContractCall {
  const encoded = encode(
    [{ type: 'tuple', components: configParts }, { type: 'uint128' }, { type: 'uint256' }, { type: 'bytes' }],
    [configOf(config), amount, nonce, signature],
  )
  return callOf(dataOf(selectors.refund, encoded))
}

/** The three calls that read a channel's state. {@link stateIn} reads their results. */
export const stateCalls = (id: string): ContractCall[] =>
  [selectors.channels, selectors.pendingWithdrawals, selectors.refundNonce].map((selector) =>
    callOf(`0x${selector}${id.slice(2)}`),
  )

/** @throws for results of another form */
export function stateIn([channel, withdrawal, nonce]: readonly unknown[]): ChannelOnChain {
  const pair = [{ type: 'uint256' }, { type: 'uint256' }] as const
  const [balance, totalClaimed] = decode(pair, channel as Hex)
  const [pendingWithdrawal, requestedAt] = decode(pair, withdrawal as Hex)
  const [refundNonce] = decode([{ type: 'uint256' }], nonce as Hex)
  return {
    balance,
    totalClaimed,
    pendingWithdrawal,
    withdrawRequestedAtSeconds: Number(requestedAt),
    refundNonce,
  }
}
