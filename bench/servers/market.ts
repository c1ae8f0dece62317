// Fills a marketplace and searches it, one search at a time, past every cache but SQLite's pages.
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { openSqlite } from '../../adapters/store/sqlite/openSqlite.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import { type DiscoveryQuery, wordsOf } from '../../core/ports/store/discovery.ts'
import { median } from '../harness/median.ts'

const LINKS = 100_000
const LINKS_OF_A_STORE = 100

const { folder, rounds } = JSON.parse(process.argv[2]!) as { folder: string; rounds: number }

/** What links are about, the more often the further in front: the first word is in a fifth of all titles. */
const subjects = `weather news prices maps images translation summary search voice music stocks flights hotels
  recipes sports football tennis chess poetry history genomes proteins minerals volcanoes lighthouses`.split(
  /\s+/,
)
const adjectives = 'live daily fast exact cheap global local historic open private'.split(' ')

/** Repeatable, so that every run searches the same market. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

function fill(path: string): void {
  const database = new DatabaseSync(path)
  const random = randomOf(1)
  const pick = (words: readonly string[]) => words[Math.floor(words.length * random() ** 2)]!
  const nowMs = Date.now()
  database.exec('PRAGMA synchronous = OFF; BEGIN')
  const store = database.prepare(`INSERT INTO stores (id, username, display_name, bio, avatar_url,
    developer_mode_enabled, created_by, payout_base, payout_solana, created_at_ms, updated_at_ms)
    VALUES (?, ?, ?, '', '', 0, 'agent', ?, NULL, 1, 1)`)
  const link =
    database.prepare(`INSERT INTO links (id, store_id, url, title, description, slug, price, is_public,
    is_active, link_type, is_stealth, methods, tags, response_mode, settle, created_at_ms, updated_at_ms, version)
    VALUES (?, ?, 'https://seller.test/', ?, ?, ?, ?, 1, 1, ?, 0, '[]', ?, 'wrap', 'after', ?, 1, 1)`)
  const stats =
    database.prepare(`INSERT INTO link_stats (link_id, changed, counted, counted_at_ms, sales, buyers)
    VALUES (?, 1, 1, ?, 9, 7)`)
  const popularity = database.prepare('UPDATE link_stats SET popularity = ? WHERE link_id = ?')
  for (let i = 0; i < LINKS; i++) {
    const storeId = `store-${Math.floor(i / LINKS_OF_A_STORE)}`
    if (i % LINKS_OF_A_STORE === 0)
      store.run(storeId, `seller_${i}`, `Seller ${i}`, random() < 0.7 ? '0xa' : null)
    const subject = pick(subjects)
    const title = `${pick(adjectives)} ${subject} no ${i}`
    const about = `All about ${subject} and ${pick(subjects)}, ${pick(adjectives)} and ${pick(adjectives)}; call ${i}.`
    const price = random() < 0.2 ? '0' : (random() ** 4 * 10).toFixed(4)
    const type = random() < 0.9 ? 'api' : 'standard'
    link.run(`link-${i}`, storeId, title, about, `s-${i}`, price, type, `["${subject}"]`, nowMs - i * 1_000)
    if (random() > 0.3) continue
    stats.run(`link-${i}`, nowMs)
    popularity.run(2_900 + random() * 10, `link-${i}`)
  }
  database.exec('COMMIT; PRAGMA optimize')
  database.close()
}

const page = { sort: 'popular', limit: 20, offset: 0 } as const
const queries: readonly [name: string, query: DiscoveryQuery][] = [
  ['popular', page],
  ['newest', { ...page, sort: 'newest' }],
  ['price_asc', { ...page, sort: 'price_asc' }],
  ['price_desc, page 50', { ...page, sort: 'price_desc', offset: 1_000 }],
  ['popular, page 2,500', { ...page, offset: 50_000 }],
  ['api, 0.1 to 1', { ...page, linkType: 'api', minPrice: '0.1', maxPrice: '1' }],
  ['free', { ...page, isFree: true }],
  ['on base, cheapest', { ...page, chain: 'base', sort: 'price_asc' }],
  ['tag', { ...page, tag: 'chess' }],
  ['a rare word', { ...page, sort: 'relevance', words: wordsOf('4711') }],
  ['a word of thousands', { ...page, sort: 'relevance', words: wordsOf('lighthouses') }],
  ['a word of a fifth', { ...page, sort: 'relevance', words: wordsOf('weather') }],
  ['two words', { ...page, sort: 'relevance', words: wordsOf('historic chess') }],
  ['two common words', { ...page, sort: 'relevance', words: wordsOf('live weather') }],
  ['a common word, cheapest', { ...page, sort: 'price_asc', words: wordsOf('news') }],
  [
    'a common word, api, below 1',
    { ...page, sort: 'relevance', linkType: 'api', maxPrice: '1', words: wordsOf('maps') },
  ],
]

const path = join(folder, 'market.db')
const options = { path, clock: systemClock, log: silentLog }
await (await openSqlite(options)).close()
fill(path)
const store = await openSqlite(options)
const all: number[] = []
const byQueryMs: Record<string, number> = {}
for (const [name, query] of queries) {
  const times: number[] = []
  for (let i = 0; i < rounds; i++) {
    const startedAt = performance.now()
    await store.discovery.search(query)
    times.push(performance.now() - startedAt)
  }
  all.push(...times)
  byQueryMs[name] = median(times)
}
await store.close()
console.log(JSON.stringify({ p50Ms: median(all), byQueryMs }))
