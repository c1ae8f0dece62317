import type { channelScheme } from '../domain/channel.ts'
import type { NetworkId } from '../domain/network.ts'

/**
 * A way to charge that Tollgate supports. `exact` charges the amount of the offer. `upto` charges at most that amount, after the
 * seller's response.
 */
export type Scheme = 'exact' | 'upto'

/** A payment method that buyers support. By a payment channel, a signed voucher pays each call. */
export type BuyerScheme = Scheme | typeof channelScheme

/**
 * x402's reason for the refusal of a payer that has not let Permit2 move its tokens. Another signature does not help, so the status
 * is 412 instead of 402.
 */
export const allowanceRequired = 'permit2_allowance_required'

/** One payment method, which is an entry of `accepts` in a 402 (x402 v2, section 5.1). */
export interface PaymentRequirements {
  readonly scheme: string
  readonly network: NetworkId
  /** Amount in atomic units, in decimal digits. */
  readonly amount: string
  readonly asset: string
  readonly payTo: string
  readonly maxTimeoutSeconds: number
  readonly extra: Readonly<Record<string, unknown>>
}

/** Whether a payment for these terms is an authorization of Permit2. */
export const isByPermit2 = ({ scheme, extra }: PaymentRequirements): boolean =>
  scheme === 'upto' || extra['assetTransferMethod'] === 'permit2'

export interface ResourceInfo {
  readonly url: string
  readonly description: string
  readonly mimeType: string
  readonly serviceName?: string
  readonly tags?: readonly string[]
  readonly iconUrl?: string
}

/** The offer of a 402. Header `PAYMENT-REQUIRED` (base64) and body contain the same JSON. */
export interface PaymentRequired {
  readonly x402Version: 2
  readonly error: string
  readonly resource: ResourceInfo
  readonly accepts: readonly PaymentRequirements[]
  readonly extensions?: Readonly<Record<string, unknown>>
}

/** A payment as a client sends it. `accepted` only selects an entry, because every term comes from the link. */
export interface PaymentPayload {
  readonly x402Version: 1 | 2
  readonly scheme: string
  readonly network: string
  readonly payload: Readonly<Record<string, unknown>>
  /** The entry that the client says it accepted (v2 only). */
  readonly accepted?: Readonly<Record<string, unknown>>
  /** v2 only: the id that the buyer has given the payment (extension `payment-identifier`). No signature covers it. */
  readonly identifier?: string
  /** v2 only: the permit with which the buyer lets Permit2 move the token (extension `eip2612GasSponsoring`). */
  readonly allowancePermit?: AllowancePermit
}

/** A permit of a token (EIP-2612) as x402 sends it. The numbers are in decimal digits. Nothing is checked yet. */
export interface AllowancePermit {
  readonly from: string
  readonly asset: string
  readonly spender: string
  readonly amount: string
  readonly nonce: string
  /** Seconds since 1970. */
  readonly deadline: string
  readonly signature: string
  readonly version: string
}

/** The receipt in `PAYMENT-RESPONSE` (base64 JSON). */
export interface SettleResponse {
  readonly success: boolean
  /** Empty if no transaction is known to have been sent. */
  readonly transaction: string
  readonly network: string
  readonly payer?: string
  readonly amount?: string
  readonly errorReason?: string
  readonly extensions?: Readonly<Record<string, unknown>>
}

const permit2Fields = {
  PermitWitnessTransferFrom: [
    { name: 'permitted', type: 'TokenPermissions' },
    { name: 'spender', type: 'address' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
    { name: 'witness', type: 'Witness' },
  ],
  TokenPermissions: [
    { name: 'token', type: 'address' },
    { name: 'amount', type: 'uint256' },
  ],
} as const

/**
 * What a buyer signs for a payment by Permit2, by scheme, for EIP-712 clients. The domain is `{name: 'Permit2', chainId,
 * verifyingContract}`.
 */
export const permit2Types = {
  exact: {
    ...permit2Fields,
    Witness: [
      { name: 'to', type: 'address' },
      { name: 'validAfter', type: 'uint256' },
    ],
  },
  upto: {
    ...permit2Fields,
    Witness: [
      { name: 'to', type: 'address' },
      { name: 'facilitator', type: 'address' },
      { name: 'validAfter', type: 'uint256' },
    ],
  },
} as const

/** What a buyer signs in scheme `exact` on EVM networks, for EIP-712 clients. See EIP-3009, section "transferWithAuthorization". */
export const transferTypes = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
} as const
