import type { NetworkId } from '../domain/network.ts'

/** One way to pay, as it stands in `accepts` of a 402 (x402 v2, section 5.1). */
export interface PaymentRequirements {
  readonly scheme: string
  readonly network: NetworkId
  /** Atomic units, decimal digits. */
  readonly amount: string
  readonly asset: string
  readonly payTo: string
  readonly maxTimeoutSeconds: number
  readonly extra: Readonly<Record<string, unknown>>
}

export interface ResourceInfo {
  readonly url: string
  readonly description: string
  readonly mimeType: string
  readonly serviceName?: string
  readonly tags?: readonly string[]
  readonly iconUrl?: string
}

/** The offer of a 402: the same JSON in the header `PAYMENT-REQUIRED` (base64) and in the body. */
export interface PaymentRequired {
  readonly x402Version: 2
  readonly error: string
  readonly resource: ResourceInfo
  readonly accepts: readonly PaymentRequirements[]
  readonly extensions?: Readonly<Record<string, unknown>>
}

/** A payment as a client sends it; `accepted` only selects an entry, every term is taken from the link. */
export interface PaymentPayload {
  readonly x402Version: 1 | 2
  readonly scheme: string
  readonly network: string
  readonly payload: Readonly<Record<string, unknown>>
  /** v2 only: the entry the client says it accepted. */
  readonly accepted?: Readonly<Record<string, unknown>>
}

/** The receipt in `PAYMENT-RESPONSE` (base64 JSON). */
export interface SettleResponse {
  readonly success: boolean
  /** Empty where nothing is known to be sent. */
  readonly transaction: string
  readonly network: string
  readonly payer?: string
  readonly amount?: string
  readonly errorReason?: string
}
