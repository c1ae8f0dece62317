import type { ChannelConfig, ChannelId } from '../domain/channel.ts'
import type { AtomicAmount } from '../domain/money.ts'
import { addressForm } from '../evm/hex.ts'
import { isObject, own } from './strictJson.ts'
import type { AllowancePermit } from './types.ts'

/** What the payer has signed for a deposit: an authorization of ERC-3009, or a permit of Permit2. */
export type DepositAuthorization = Erc3009Deposit | Permit2Deposit

/** A deposit's authorization by ERC-3009 `receiveWithAuthorization`. */
export interface Erc3009Deposit {
  readonly amount: AtomicAmount
  /** Seconds since 1970, as is `validBefore`. */
  readonly validAfter: bigint
  readonly validBefore: bigint
  /** The authorization's nonce is the hash of the channel's id and this number. */
  readonly salt: bigint
  /** 0x and hex in lower case: 65 bytes of a plain account, any length of a contract wallet. */
  readonly signature: string
}

/** A deposit's permit of Permit2, for tokens without ERC-3009. */
export interface Permit2Deposit {
  readonly amount: AtomicAmount
  /** Seconds since 1970. The deposit may still happen in this second. */
  readonly validBefore: bigint
  /** 0x and hex in lower case: 65 bytes of a plain account, any length of a contract wallet. */
  readonly signature: string
  readonly permit2: DepositPermit
}

/** The fields of a deposit's permit. Whether they agree with the channel and the amount is not checked yet. Hex is in lower case. */
export interface DepositPermit {
  readonly from: string
  readonly token: string
  readonly amount: AtomicAmount
  /** The contract that may use the permit. */
  readonly spender: string
  readonly nonce: bigint
  readonly channelId: ChannelId
  /** The permit of the token by which the payer allows Permit2 to move the amount. Not checked yet. */
  readonly allowance?: AllowancePermit | undefined
}

/** The payload of a payment of scheme `batch-settlement`. Hex is in lower case. */
export interface ChannelPayment {
  readonly type: 'voucher' | 'deposit' | 'refund'
  readonly config: ChannelConfig
  readonly channelId: ChannelId
  /** Total of all calls of the channel that the voucher allows to charge, in atomic units. */
  readonly maxClaimable: AtomicAmount
  /** The voucher's signature, 65 bytes. */
  readonly signature: string
  /** Set only with type `deposit`. */
  readonly deposit: DepositAuthorization | null
  /** The amount to refund, in atomic units. Null for all that is left. Set only with type `refund`. */
  readonly refundAmount: AtomicAmount | 'invalid' | null
}

export type ChannelPaymentRead =
  | { readonly ok: true; readonly payment: ChannelPayment }
  | { readonly ok: false; readonly message: string }

const uintForm = /^(0|[1-9]\d{0,77})$/
const wordForm = /^0x[0-9a-fA-F]{64}$/
const voucherSignatureForm = /^0x[0-9a-fA-F]{130}$/
const bytesForm = /^0x(?:[0-9a-fA-F]{2}){65,8000}$/
const MAX_UINT128 = 2n ** 128n - 1n
const MAX_UINT256 = 2n ** 256n - 1n

type Fields = Readonly<Record<string, unknown>>

/**
 * Reads the `payload` of a payment by a channel. It accepts one spelling of each number, reads own properties only, and never
 * throws. The message never repeats a value.
 *
 * @param allowance the payment's permit of the token, for a deposit by Permit2
 */
export function readChannelPayment(payload: Fields, allowance?: AllowancePermit): ChannelPaymentRead {
  const type = own(payload, 'type')
  if (type !== 'voucher' && type !== 'deposit' && type !== 'refund')
    return no('payload.type must be "voucher", "deposit" or "refund"')
  const config = readConfig(own(payload, 'channelConfig'))
  if (config === undefined)
    return no(
      'payload.channelConfig must have the five addresses, withdrawDelay as a number of seconds, and salt as 32 bytes in hex',
    )
  const voucher = own(payload, 'voucher')
  if (!isObject(voucher)) return no('payload.voucher must be an object')
  const channelId = text(voucher, 'channelId', wordForm)
  const maxClaimable = uint(voucher, 'maxClaimableAmount')
  const signature = text(voucher, 'signature', voucherSignatureForm)
  if (channelId === undefined) return no('voucher.channelId must be 32 bytes in hex')
  if (maxClaimable === undefined) return no('voucher.maxClaimableAmount must be decimal digits below 2^128')
  if (signature === undefined) return no('voucher.signature must be 65 bytes in hex')
  const deposit = type === 'deposit' ? readDeposit(own(payload, 'deposit'), allowance) : null
  if (typeof deposit === 'string') return no(deposit)
  const refundAmount = type === 'refund' ? readRefundAmount(payload) : null
  const payment = { type, config, channelId, maxClaimable, signature, deposit, refundAmount } as const
  return { ok: true, payment }
}

function readConfig(given: unknown): ChannelConfig | undefined {
  if (!isObject(given)) return undefined
  const payer = text(given, 'payer', addressForm)
  const payerAuthorizer = text(given, 'payerAuthorizer', addressForm)
  const receiver = text(given, 'receiver', addressForm)
  const receiverAuthorizer = text(given, 'receiverAuthorizer', addressForm)
  const token = text(given, 'token', addressForm)
  const salt = text(given, 'salt', wordForm)
  const withdrawDelay = own(given, 'withdrawDelay')
  if (
    !Number.isInteger(withdrawDelay) ||
    (withdrawDelay as number) < 0 ||
    (withdrawDelay as number) >= 2 ** 40
  )
    return undefined
  if (payer === undefined || payerAuthorizer === undefined || receiver === undefined) return undefined
  if (receiverAuthorizer === undefined || token === undefined || salt === undefined) return undefined
  return {
    payer,
    payerAuthorizer,
    receiver,
    receiverAuthorizer,
    token,
    withdrawDelay: withdrawDelay as number,
    salt,
  }
}

function readDeposit(given: unknown, allowance: AllowancePermit | undefined): DepositAuthorization | string {
  const amount = isObject(given) ? uint(given, 'amount') : undefined
  if (amount === undefined || amount === 0n)
    return 'deposit.amount must be positive decimal digits below 2^128'
  const authorization = own(given as Fields, 'authorization')
  const signed = isObject(authorization) ? own(authorization, 'erc3009Authorization') : undefined
  const permit = isObject(authorization) ? own(authorization, 'permit2Authorization') : undefined
  if (isObject(signed) === isObject(permit))
    return 'deposit.authorization must have an object erc3009Authorization or permit2Authorization, and not both'
  return isObject(permit) ? readPermit(permit, amount, allowance) : readErc3009(signed as Fields, amount)
}

function readErc3009(signed: Fields, amount: AtomicAmount): Erc3009Deposit | string {
  const validAfter = uint(signed, 'validAfter')
  const validBefore = uint(signed, 'validBefore')
  const salt = text(signed, 'salt', wordForm) ?? text(signed, 'salt', uintForm)
  const signature = text(signed, 'signature', bytesForm)
  const isWhole = validAfter !== undefined && validBefore !== undefined && signature !== undefined
  if (!isWhole || salt === undefined || BigInt(salt) > MAX_UINT256)
    return 'erc3009Authorization must have validAfter and validBefore as decimal digits, salt as 32 bytes in hex, and signature in hex'
  return { amount, validAfter, validBefore, salt: BigInt(salt), signature }
}

function readPermit(
  permit: Fields,
  amount: AtomicAmount,
  allowance: AllowancePermit | undefined,
): Permit2Deposit | string {
  const permitted = own(permit, 'permitted')
  const witness = own(permit, 'witness')
  const from = text(permit, 'from', addressForm)
  const spender = text(permit, 'spender', addressForm)
  const nonce = text(permit, 'nonce', uintForm)
  const validBefore = uint(permit, 'deadline')
  const signature = text(permit, 'signature', bytesForm)
  const token = isObject(permitted) ? text(permitted, 'token', addressForm) : undefined
  const permittedAmount = isObject(permitted) ? uint(permitted, 'amount') : undefined
  const channelId = isObject(witness) ? text(witness, 'channelId', wordForm) : undefined
  if (from === undefined || spender === undefined || token === undefined || channelId === undefined)
    return 'permit2Authorization must have from, spender and permitted.token as addresses, and witness.channelId as 32 bytes in hex'
  const isWhole = permittedAmount !== undefined && validBefore !== undefined && signature !== undefined
  if (!isWhole || nonce === undefined || BigInt(nonce) > MAX_UINT256)
    return 'permit2Authorization must have permitted.amount, nonce and deadline as decimal digits, and signature in hex'
  const fields = { from, token, amount: permittedAmount, spender, nonce: BigInt(nonce), channelId, allowance }
  return { amount, validBefore, signature, permit2: fields }
}

function readRefundAmount(payload: Fields): AtomicAmount | 'invalid' | null {
  if (own(payload, 'amount') === undefined) return null
  const amount = uint(payload, 'amount')
  return amount === undefined || amount === 0n ? 'invalid' : amount
}

function text(object: Fields, name: string, form: RegExp): string | undefined {
  const value = own(object, name)
  return typeof value === 'string' && form.test(value) ? value.toLowerCase() : undefined
}

function uint(object: Fields, name: string): bigint | undefined {
  const digits = text(object, name, uintForm)
  if (digits === undefined) return undefined
  const value = BigInt(digits)
  return value <= MAX_UINT128 ? value : undefined
}

const no = (message: string): ChannelPaymentRead => ({
  ok: false,
  message: `In the payment header, ${message}.`,
})
