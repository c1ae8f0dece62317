import { codes } from './codes.ts'
import { codeTable } from './codeTable.ts'

/** Who sees a code: clients of the marketplace API, or callers of links. */
export type Audience = 'api' | 'calls'

/** The Markdown table of docs/errors.md: every code of one audience. */
export const errorTable = (audience: Audience): string =>
  codeTable(
    Object.fromEntries(
      Object.entries(codes).filter(([code]) => (code === code.toUpperCase() ? 'api' : 'calls') === audience),
    ),
  )
