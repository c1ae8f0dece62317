import type { SettleResponse } from '../x402/types.ts'
import { codes, type ErrorCode } from './codes.ts'

const brand: unique symbol = Symbol.for('tollgate.error') as never

/** One thing that is wrong with the input: where, which rule, in words. */
export interface ErrorDetail {
  readonly path: string
  readonly code: string
  readonly message: string
}

export interface TollgateErrorOptions extends ErrorOptions {
  readonly details?: readonly ErrorDetail[]
  /** Seconds after which the caller may try again; becomes `Retry-After`. */
  readonly retryAfterSeconds?: number
  /** Where it is not as the code says: a call that was charged and failed is not repeated, whatever it failed of. */
  readonly retryable?: boolean
  /** Fields that stand beside `error` in the answer, such as `cooldown_until`. */
  readonly extra?: Readonly<Record<string, unknown>>
  /** x402 `errorReason`, such as `invalid_exact_evm_payload_signature`. */
  readonly reason?: string
  /** Of `invalid_payment`: what came could not be read, so that no other offer would help. */
  readonly isUnread?: true
  /** What is known of a refused payment that is not on the exchange; goes into its `PAYMENT-RESPONSE`. */
  readonly receipt?: Partial<Pick<SettleResponse, 'network' | 'payer' | 'transaction'>>
}

/**
 * An error that may be shown to the caller. Its message says what was expected, what came and what to do; it never
 * carries a body, a key or a signature. Anything else that is thrown becomes a plain 500 with an id.
 *
 * Recognise it with {@link isTollgateError}: two copies of this module can be loaded, so `instanceof` may lie.
 */
export class TollgateError extends Error {
  readonly code: ErrorCode
  readonly status: number
  readonly details: readonly ErrorDetail[] | undefined
  readonly retryAfterSeconds: number | undefined
  readonly extra: Readonly<Record<string, unknown>> | undefined
  readonly reason: string | undefined
  readonly receipt: TollgateErrorOptions['receipt']
  readonly retryable: boolean
  readonly isUnread: boolean
  readonly [brand] = true

  constructor(code: ErrorCode, message: string = codes[code].meaning, options: TollgateErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'TollgateError'
    this.code = code
    this.status = codes[code].status
    this.details = options.details
    this.retryAfterSeconds = options.retryAfterSeconds
    this.extra = options.extra
    this.reason = options.reason
    this.receipt = options.receipt
    this.retryable = options.retryable ?? codes[code].retryable
    this.isUnread = options.isUnread ?? false
  }
}

/** True for a {@link TollgateError} of this or another copy of the package. */
export function isTollgateError(error: unknown): error is TollgateError {
  return typeof error === 'object' && error !== null && (error as Record<symbol, unknown>)[brand] === true
}
