import type { Finding } from '../check/explain.ts'
import type { ConfigProblem } from '../check/problem.ts'
import type { ExpansionFinding } from './expand.ts'
import { displayPath } from './pointer.ts'
import type { Source, Span } from './source.ts'

/** Ties a finding to its line; a piece of a text that it is about is marked alone. */
export function locateFinding(source: Source, finding: Finding | ExpansionFinding): ConfigProblem {
  const span = source.spanOf(finding.pointer, finding.part)
  if (span === undefined || !('at' in finding)) return locateSpan(source, { ...finding, span })
  const within = source.text.slice(span.start, span.end).indexOf(finding.at)
  if (within < 0) return locateSpan(source, { ...finding, span })
  const start = span.start + within
  return locateSpan(source, { ...finding, span: { start, end: start + finding.at.length } })
}

/** A problem whose place in the text is known, and its line not yet. */
type Unlocated = Pick<Finding, 'pointer' | 'message' | 'hint'> & {
  readonly severity?: Finding['severity']
  readonly span: Span | undefined
}

/** Ties a problem of the file's form to its line. */
export function locateSpan(
  source: Source,
  { span, pointer, message, hint, severity }: Unlocated,
): ConfigProblem {
  const place = span === undefined ? { line: 0, column: 0 } : source.lineOf(span.start)
  return {
    severity: severity ?? 'error',
    file: source.file,
    ...place,
    length: span === undefined ? 0 : Math.max(1, span.end - span.start),
    path: displayPath(pointer, source.tree),
    message,
    ...(hint === undefined ? {} : { hint }),
  }
}

/** In the order of the file. */
export const byPlace = (a: ConfigProblem, b: ConfigProblem): number => a.line - b.line || a.column - b.column
