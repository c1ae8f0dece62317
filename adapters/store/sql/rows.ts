import { setImmediate as nextTurn } from 'node:timers/promises'
import { cursorAt } from '../../../core/ports/store/purchases.ts'

/** One row of a result, by the names of its columns. */
export type Row = Readonly<Record<string, unknown>>

/**
 * Returns a page of a list, and the position where the next page begins.
 *
 * @param rows in their order, at most one more than `limit`; the extra row means that there is another page
 * @param place of a row: its creation time, in ms since 1970, and its id
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

/** Number of links whose documents are parsed per turn of the event loop. Each link may have two documents of 16 kB. */
const BATCH_ROWS = 10

/** Converts rows of links, a few in each turn of the event loop. */
export async function readInBatches<Link>(
  rows: readonly object[],
  toOne: (row: object) => Link,
): Promise<Link[]> {
  const links: Link[] = []
  for (const row of rows) {
    links.push(toOne(row))
    if (links.length % BATCH_ROWS === 0) await nextTurn()
  }
  return links
}
