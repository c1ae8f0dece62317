import { isVaultError, VaultError } from './error.ts'

/** The body of every failed answer of the vault. */
export interface VaultErrorBody {
  readonly error: {
    readonly code: string
    readonly message: string
    /** What to do about it, in words. */
    readonly action?: string
    /** True when the same request may succeed later without being changed. */
    readonly retryable: boolean
    readonly details?: unknown
  }
}

/** The answer to whatever was thrown; what was not thrown on purpose says nothing about itself. */
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
