import { cursorAt, readCursor } from '../../../core/ports/store/purchases.ts'

interface Made {
  readonly id: string
  readonly createdAtMs: number
}

/**
 * A page of what was made, newest first, and of one time by id from the last one.
 *
 * @returns `nextCursor` is null on the last page
 * @throws `VALIDATION_ERROR` for a cursor of no page
 */
export function newestPage<Row extends Made>(
  rows: readonly Row[],
  { cursor, limit }: { readonly cursor?: string | undefined; readonly limit: number },
): { readonly shown: Row[]; readonly nextCursor: string | null } {
  const after = cursor === undefined ? undefined : readCursor(cursor)
  const found = rows
    .filter(
      (one) =>
        after === undefined ||
        one.createdAtMs < after.atMs ||
        (one.createdAtMs === after.atMs && one.id < after.id),
    )
    .sort((a, b) => b.createdAtMs - a.createdAtMs || (a.id < b.id ? 1 : -1))
  const shown = found.slice(0, limit)
  const last = found.length > limit ? shown.at(-1) : undefined
  return { shown, nextCursor: last === undefined ? null : cursorAt(last.createdAtMs, last.id) }
}
