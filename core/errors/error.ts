import { codes, type ErrorCode } from './codes.ts'

const brand: unique symbol = Symbol.for('tollgate.error') as never

/** One problem of the input, with its position, the broken rule and a message. */
export interface ErrorDetail {
  readonly path: string
  readonly code: string
  readonly message: string
}

export interface TollgateErrorOptions extends ErrorOptions {
  readonly details?: readonly ErrorDetail[]
  /** Seconds after which the caller may try again. They are sent as `Retry-After`. */
  readonly retryAfterSeconds?: number
  /**
   * Whether the caller may repeat the request, if this differs from the code's own value. A call that was charged and failed must
   * not be repeated, regardless of the cause.
   */
  readonly retryable?: boolean
  /** Fields besides `error` in the response, such as `cooldown_until`. */
  readonly extra?: Readonly<Record<string, unknown>>
  /** x402 `errorReason`, such as `invalid_exact_evm_payload_signature`. */
  readonly reason?: string
  /** True for a payment or sign-in that could not be read, so that another offer would not help. */
  readonly isUnread?: true
  /** Facts of a refused payment that are not on the exchange. `PAYMENT-RESPONSE` contains them. */
  readonly receipt?: { readonly network?: string; readonly payer?: string; readonly transaction?: string }
}

/**
 * An error that may be shown to the caller. Its message says what was expected, what came and what to do. It never contains a body,
 * a key or a signature. Any other error becomes a plain 500 with an id.
 *
 * Recognize it with {@link isTollgateError}, because `instanceof` fails if two copies of this module are loaded.
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
