import { type ConfigProblem, renderProblems } from './check/problem.ts'

const brand: unique symbol = Symbol.for('tollgate.configError') as never

/**
 * A configuration that can't be used. `problems` lists everything that is wrong with it, in the order of the file;
 * the message is the same for a person, with each line and a caret.
 */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly code = 'CONFIG_INVALID'
  readonly problems: readonly ConfigProblem[]
  readonly [brand] = true

  constructor(problems: readonly ConfigProblem[], text: string, options?: ErrorOptions) {
    const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`
    super(`The configuration has ${count}.\n\n${renderProblems(problems, text)}`, options)
    this.problems = problems
  }
}

/** True for a {@link ConfigError} of this or another copy of the package. */
export function isConfigError(error: unknown): error is ConfigError {
  return typeof error === 'object' && error !== null && (error as Record<symbol, unknown>)[brand] === true
}
