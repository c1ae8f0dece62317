import { visibleColumns } from '../../text/visibleText.ts'

/** One problem in a configuration file, with its position. It contains no value from the environment. */
export interface ConfigProblem {
  readonly severity: 'error' | 'warning'
  readonly file: string
  /** Line number from 1. 0 if the problem is about the whole file. */
  readonly line: number
  /** Column number from 1, in UTF-16 units. */
  readonly column: number
  /** How many characters the caret marks. */
  readonly length: number
  /** Path of the option, such as `plugins[2].with.windowMs`. Empty for the file itself. */
  readonly path: string
  readonly message: string
  readonly hint?: string
}

/** Maximum problems that are printed. Further problems are only counted. */
const MAX_SHOWN = 20
const MAX_COLUMNS = 100

/** Prints problems for the operator, each with its place, message and hint, and with its line and a caret below the wrong part. */
export function renderProblems(problems: readonly ConfigProblem[], text: string): string {
  const lines = text.split(/\r\n|\r|\n/)
  const shown = problems.slice(0, MAX_SHOWN).map((problem) => renderProblem(problem, lines))
  if (problems.length > MAX_SHOWN) shown.push(`… and ${problems.length - MAX_SHOWN} more.`)
  return shown.join('\n\n')
}

function renderProblem(problem: ConfigProblem, lines: readonly string[]): string {
  const { file, line, column, severity } = problem
  const location = line > 0 ? `${file}:${line}:${column}` : file
  const out = [
    `${location}  ${severity === 'warning' ? 'warning' : 'error'}${problem.path ? `  ${problem.path}` : ''}`,
  ]
  out.push(`  ${problem.message}`)
  if (problem.hint !== undefined) out.push(`  ${problem.hint}`)
  const source = lines[line - 1]
  if (source !== undefined) out.push(...excerpt(source, problem))
  return out.join('\n')
}

function excerpt(source: string, problem: ConfigProblem): string[] {
  const { line, column, length } = problem
  const safe = withoutSecrets(source, problem)
  const from = column > MAX_COLUMNS - 20 ? column - 40 : 0
  const visible = visibleColumns(safe.slice(from, from + MAX_COLUMNS), '·')
  const before = visible.slice(0, column - 1 - from).replace(/[^\t]/g, ' ')
  const marked = Math.max(1, Math.min(length, visible.length - before.length))
  const gutter = String(line).padStart(6)
  return [`${gutter} | ${visible}`, `${' '.repeat(gutter.length)} | ${before}${'^'.repeat(marked)}`]
}

/** Paths whose value is a secret, even if the name of the option is on another line. */
const secretPath = /(?:key|secret|token|password|authorization)$|headers\b/i

/** A hint with the name of a secret option, which may be printed even though the value beside it is a secret. */
const misspelledSecret = /mean (?:\w*key|\w*secret|\w*token|\w*password|authorization)\?/i

function withoutSecrets(source: string, { column, length, path, hint = '' }: ConfigProblem): string {
  if (/privateKeys/.test(`${path} ${source}`)) return hideEntries(source)
  const isSecret = secretPath.test(path) || misspelledSecret.test(hint)
  if (!isSecret) return hideSecrets(source)
  const end = column - 1 + length
  const isName = /^["']?\s*:/.test(source.slice(end))
  if (isName) return hideSecrets(source.slice(0, end)) + hideEntries(source.slice(end))
  return hideSecrets(source.slice(0, column - 1)) + hideEntries(source.slice(column - 1))
}

/**
 * Hides the entries of a list of keys, except references to the environment. All entries are hidden, because they have no names
 * beside them.
 */
const hideEntries = (source: string): string =>
  source.replace(/\$\{[^}]*\}|\w+:(?=\s|$)|[^\s[\]{},"'-]+/g, (part) =>
    part.startsWith('${') || part.endsWith(':') ? part : '•'.repeat(part.length),
  )

/**
 * Hides every text that looks like a secret. Each character is replaced by one character, so that the caret stays in place. Secrets
 * are hidden because printed errors often end up in logs and bug reports.
 */
export function hideSecrets(source: string): string {
  const mask = (part: string) => '•'.repeat(part.length)
  return source
    .replace(
      /((?:key|secret|token|password|authorization)(?:["']\s*:\s*|\s*:\s+))(?!["']?\$\{)("(?:\\.|[^"\\])*"?|'[^']*'?|\S.*)/gi,
      (_, k, v) => k + mask(v),
    )
    .replace(/(\/\/)([^\s/@"'$]+)(@)/g, (_, a, user, b) => a + mask(user) + b)
    .replace(/(:\/\/[^\s/?"']+[/?])([^\s"'$]{16,})/g, (_, origin, rest) => origin + mask(rest))
    .replace(/(?:0x)?[0-9a-fA-F]{64,}|[1-9A-HJ-NP-Za-km-z]{60,}/g, mask)
}

const brand: unique symbol = Symbol.for('tollgate.configError') as never

/**
 * A configuration that cannot be used. `problems` lists all problems in the order of the file. The message shows them to people,
 * each with its line and a caret.
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
