import { visibleColumns } from '../../text/visibleText.ts'

/** One thing that is wrong in a configuration file, and where. Carries no value that came from the environment. */
export interface ConfigProblem {
  readonly severity: 'error' | 'warning'
  readonly file: string
  /** 1-based; 0 when the problem is about the whole file. */
  readonly line: number
  /** 1-based, in UTF-16 units. */
  readonly column: number
  /** How many characters the caret marks. */
  readonly length: number
  /** Such as `plugins[2].with.windowMs`; empty for the file itself. */
  readonly path: string
  readonly message: string
  readonly hint?: string
}

/** At most this many problems are printed; the rest is counted. */
const MAX_SHOWN = 20
const MAX_COLUMNS = 100

/** Prints problems for a person: place, message, hint, and the line with a caret under the spot. */
export function renderProblems(problems: readonly ConfigProblem[], text: string): string {
  const lines = text.split(/\r\n|\r|\n/)
  const shown = problems.slice(0, MAX_SHOWN).map((problem) => renderProblem(problem, lines))
  if (problems.length > MAX_SHOWN) shown.push(`… and ${problems.length - MAX_SHOWN} more.`)
  return shown.join('\n\n')
}

function renderProblem(problem: ConfigProblem, lines: readonly string[]): string {
  const { file, line, column, severity } = problem
  const place = line > 0 ? `${file}:${line}:${column}` : file
  const out = [
    `${place}  ${severity === 'warning' ? 'warning' : 'error'}${problem.path ? `  ${problem.path}` : ''}`,
  ]
  out.push(`  ${problem.message}`)
  if (problem.hint !== undefined) out.push(`  ${problem.hint}`)
  const source = lines[line - 1]
  if (source !== undefined) out.push(...excerpt(source, problem))
  return out.join('\n')
}

function excerpt(source: string, { line, column, length, path }: ConfigProblem): string[] {
  const safe = /privateKeys/.test(`${path} ${source}`) ? hideEntries(source) : hideSecrets(source)
  const from = column > MAX_COLUMNS - 20 ? column - 40 : 0
  const visible = visibleColumns(safe.slice(from, from + MAX_COLUMNS), '·')
  const before = visible.slice(0, column - 1 - from).replace(/[^\t]/g, ' ')
  const marked = Math.max(1, Math.min(length, visible.length - before.length))
  const gutter = String(line).padStart(6)
  return [`${gutter} | ${visible}`, `${' '.repeat(gutter.length)} | ${before}${'^'.repeat(marked)}`]
}

/** An entry of a list of keys stands without a name beside it: nothing of its line is shown but what comes from the environment. */
const hideEntries = (source: string): string =>
  source.replace(/\$\{[^}]*\}|\w+:(?=\s|$)|[^\s[\]{},"'-]+/g, (part) =>
    part.startsWith('${') || part.endsWith(':') ? part : '•'.repeat(part.length),
  )

/**
 * Hides what looks like a secret that was written into the file, letter for letter, so that the caret still fits: an
 * error is printed, and printed errors end up in logs and in bug reports.
 */
export function hideSecrets(source: string): string {
  const mask = (part: string) => '•'.repeat(part.length)
  return source
    .replace(
      /((?:key|secret|token|password|authorization)["']?\s*:\s+)(?!["']?\$\{)(\S.*)/i,
      (_, k, v) => k + mask(v),
    )
    .replace(/(:\/\/)([^\s/@"'$]+)(@)/g, (_, a, user, b) => a + mask(user) + b)
    .replace(/(:\/\/[^\s/"']+\/)([^\s"'$]{16,})/g, (_, origin, rest) => origin + mask(rest))
    .replace(/(?:0x)?[0-9a-fA-F]{64,}|[1-9A-HJ-NP-Za-km-z]{60,}/g, mask)
}
