import { setImmediate as nextTurn } from 'node:timers/promises'

/** Links whose documents are read in one turn of the event loop; each may have two of 16 kB. */
const READ_IN_A_TURN = 10

/** Reads rows of links, some in each turn of the event loop. */
export async function inTurns<Link>(rows: readonly object[], toOne: (row: object) => Link): Promise<Link[]> {
  const links: Link[] = []
  for (const row of rows) {
    links.push(toOne(row))
    if (links.length % READ_IN_A_TURN === 0) await nextTurn()
  }
  return links
}
