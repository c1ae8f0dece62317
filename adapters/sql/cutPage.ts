import { cursorAt } from '../../core/ports/store/purchases.ts'

/**
 * What a page shows, and where the next one begins.
 *
 * @param rows in their order, at most one more than `limit`: it says that there is another page
 * @param place of a row: when it was made, in ms since 1970, and its id
 */
export function cutPage<Row>(
  rows: readonly Row[],
  limit: number,
  place: (row: Row) => readonly [createdAtMs: number, id: string],
): { readonly shown: Row[]; readonly nextCursor: string | null } {
  const shown = rows.slice(0, limit)
  const last = rows.length > limit ? shown.at(-1) : undefined
  return { shown, nextCursor: last === undefined ? null : cursorAt(...place(last)) }
}
