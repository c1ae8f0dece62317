import { type VaultCode, vaultCodes } from './codes.ts'

const brand: unique symbol = Symbol.for('tollgate.vault.error') as never

export interface VaultErrorOptions extends ErrorOptions {
  /** What a program can act on: fields, limits, ids. Never a secret, a key or a signature. */
  readonly details?: unknown
  /** What to do about it, where that can be said more exactly than for the code in general. */
  readonly action?: string
  /** Seconds after which the caller may try again; becomes `Retry-After`. */
  readonly retryAfterSeconds?: number
}

/**
 * An error that may be shown to an agent. Its message says what was expected, what came and what to do; it never carries
 * a password, a key or a stored value. Anything else that is thrown becomes a plain 500 with an id.
 *
 * Recognise it with {@link isVaultError}: two copies of this module can be loaded, so `instanceof` may lie.
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

/** True for a {@link VaultError} of this or another copy of the package. */
export function isVaultError(error: unknown): error is VaultError {
  return typeof error === 'object' && error !== null && (error as Record<symbol, unknown>)[brand] === true
}
