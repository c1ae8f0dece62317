import { isConfigError } from '../../core/config/check/problem.ts'
import { GenerationError } from '../../core/kernel/readyPlugin.ts'

/** Exit codes of the commands. They are API: codes are added, never changed. */
export const exitCodes = {
  ok: 0,
  /** Something failed on this machine, in this program or on another server. */
  failed: 1,
  /** Wrong options, or an invalid configuration. The command changed nothing. */
  usage: 2,
} as const

/** Thrown if a command was called incorrectly. The message tells what was expected. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly code = 'USAGE'
}

/** Parses a flag's whole number. @throws {UsageError} */
export function wholeNumber(name: string, text: string, least: number, most: number): number {
  const value = Number(text)
  if (/^\d{1,9}$/.test(text) && value >= least && value <= most) return value
  throw new UsageError(`Expected ${name} to be a whole number from ${least} to ${most}, got ${text}.`)
}

/** The exit code of an error. */
export function exitCodeOf(error: unknown): number {
  const code = (error as { code?: unknown } | null)?.code
  // With a cause, a plugin failed during setup, and the next start may succeed. Without a cause, the configuration is invalid.
  const isOrder = error instanceof GenerationError && error.cause === undefined
  const isUsage = isConfigError(error) || isOrder || code === 'USAGE' || String(code).startsWith('commander.')
  return isUsage ? exitCodes.usage : exitCodes.failed
}
