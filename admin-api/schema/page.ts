import { textOrNull } from './answers.ts'

/** Where a page begins: what the page before it said. */
export const cursorField = {
  type: 'string',
  minLength: 1,
  maxLength: 512,
  description: '`nextCursor` of the page before.',
} as const

/** What is asked of a list that comes in pages, as properties of a query. */
export const pageFields = {
  limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
  cursor: cursorField,
} as const

/** A query that {@link pageFields} have judged. */
export interface PageQuery {
  readonly limit: number
  readonly cursor?: string
}

/** Where the page after this one begins. */
export const nextCursorField = textOrNull('Null on the last page.')
