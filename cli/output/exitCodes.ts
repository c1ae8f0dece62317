import { isConfigError } from '../../core/config/configError.ts'
import { GenerationError } from '../../core/kernel/generationError.ts'

/** What the commands exit with. Codes are API: they are added, never given another meaning. */
export const exitCodes = {
  ok: 0,
  /** Something failed: a fault of this program, this machine, or another one that was asked. */
  failed: 1,
  /** Wrong options, or a configuration that can't be used; nothing was done. */
  usage: 2,
} as const

/** A command was called in a way that can't work; its message says what was expected. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly code = 'USAGE'
}

/** The exit code that goes with an error. */
export function exitCodeOf(error: unknown): number {
  const code = (error as { code?: unknown } | null)?.code
  // One with a cause is a plugin that refused its set-up, of which the next start may be free.
  const isOrder = error instanceof GenerationError && error.cause === undefined
  const isUsage = isConfigError(error) || isOrder || code === 'USAGE' || String(code).startsWith('commander.')
  return isUsage ? exitCodes.usage : exitCodes.failed
}
