import { type VaultCode, vaultCodes } from './codes.ts'

/** The body of every error response of the vault. */
interface VaultErrorBody {
  readonly error: {
    readonly code: string
    readonly message: string
    /** The remedy, in words. */
    readonly action?: string
    /** True when the same request may succeed later without changes. */
    readonly retryable: boolean
    readonly details?: unknown
  }
}

/** The response body for any thrown value. For an unexpected error it contains no detail of the error. */
export function errorBody(error: unknown): VaultErrorBody {
  const shown = isVaultError(error) ? error : new VaultError('INTERNAL_ERROR')
  const { code, message, action, retryable, details } = shown
  return {
    error: {
      code,
      message,
      action,
      retryable,
      ...(details === undefined ? {} : { details }),
    },
  }
}

const brand: unique symbol = Symbol.for('tollgate.vault.error') as never

export interface VaultErrorOptions extends ErrorOptions {
  /** Machine-readable details: fields, limits, ids. Never a secret, a key or a signature. */
  readonly details?: unknown
  /** The remedy, if it is more exact than the remedy of the code. */
  readonly action?: string
  /** Seconds after which the caller may retry, sent as `Retry-After`. */
  readonly retryAfterSeconds?: number
}

/**
 * An error that may be shown to an agent. Its message states what was expected, what came and what to do. It never contains a
 * password, a key or a stored value. Any other thrown value becomes a plain 500 with an id.
 *
 * Recognize it with {@link isVaultError}, because two copies of this module can be loaded and `instanceof` is then
 * unreliable.
 */
export class VaultError extends Error {
  readonly code: VaultCode
  readonly status: number
  readonly details: unknown
  readonly action: string
  readonly retryAfterSeconds: number | undefined
  readonly [brand] = true

  constructor(code: VaultCode, message: string = vaultCodes[code].meaning, options: VaultErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'VaultError'
    this.code = code
    this.status = vaultCodes[code].status
    this.details = options.details
    this.action = options.action ?? vaultCodes[code].remedy
    this.retryAfterSeconds = options.retryAfterSeconds
  }

  get retryable(): boolean {
    return vaultCodes[this.code].retryable
  }
}

/** True for a {@link VaultError} of any copy of the package. */
export function isVaultError(error: unknown): error is VaultError {
  return typeof error === 'object' && error !== null && (error as Record<symbol, unknown>)[brand] === true
}
