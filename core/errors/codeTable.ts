import { alignTable } from '../config/docs.ts'

/** What a table of codes shows of one. */
export interface ShownCode {
  readonly status: number
  readonly meaning: string
  readonly remedy: string
  readonly retryable: boolean
}

/**
 * A Markdown table of error codes, by status and name: whether the same request may be repeated, what happened and what to
 * do.
 */
export function codeTable(codes: Readonly<Record<string, ShownCode>>): string {
  const rows = Object.entries(codes)
    .sort(([a, x], [b, y]) => x.status - y.status || (a < b ? -1 : 1))
    .map(([code, { status, retryable, meaning, remedy }]) => [
      `\`${code}\``,
      String(status),
      retryable ? 'yes' : 'no',
      meaning,
      remedy,
    ])
  return alignTable([['Code', 'Status', 'Repeat?', 'What happened', 'What to do'], ...rows])
}
