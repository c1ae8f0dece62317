import type { DatabaseSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { DAY_MS } from '../../../core/ports/store/figures.ts'

const counted = `SELECT v.day AS at, sum(v.views) AS views, sum(v.challenges) AS challenges
  FROM links l CROSS JOIN link_days v ON v.link_id = l.id WHERE l.store_id = ? AND (v.views <> 0 OR v.challenges <> 0) GROUP BY 1`
const kept =
  'SELECT day AS at, views, challenges FROM store_days WHERE store_id = ? AND (views <> 0 OR challenges <> 0) ORDER BY 1'
const nextSeen = `SELECT min(id) AS id FROM (SELECT min(id) AS id FROM stores WHERE id > ?1
  UNION ALL SELECT min(store_id) FROM store_days WHERE store_id > ?1)`

/** Names the days of stores on which their views are not those of their links. A store's are looked at as they stand at one moment. */
export async function judgeViews(
  database: DatabaseSync,
  say: (finding: string) => void,
  onStore: (stores: number) => void,
): Promise<void> {
  const [seen, ofLinks, ofStore] = [nextSeen, counted, kept].map((sql) => database.prepare(sql))
  let stores = 0
  for (let id = seen!.get('')!['id']; id !== null; id = seen!.get(id!)!['id']) {
    database.exec('BEGIN')
    const [links, store] = [ofLinks!, ofStore!].map(
      (read) =>
        new Map(read.all(id!).map(({ at, views, challenges }) => [Number(at), `${views} ${challenges}`])),
    )
    database.exec('COMMIT')
    const days = new Set([...links!.keys(), ...store!.keys()])
    for (const at of [...days].sort((a, b) => a - b)) {
      if (links!.get(at) === store!.get(at)) continue
      const day = new Date(at * DAY_MS).toISOString().slice(0, 10)
      say(`the views of ${id} on ${day} are not those of its links`)
    }
    onStore(++stores)
    await setImmediate()
  }
}
