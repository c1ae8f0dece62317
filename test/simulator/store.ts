import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { createMemory } from '../../adapters/memory/store/memory.ts'
import { openMemory } from '../../adapters/memory/store/openMemory.ts'
import type { Schema } from '../../adapters/sql/schema.ts'
import { createGroupCommit } from '../../adapters/sqlite/commit/groupCommit.ts'
import type { Writer } from '../../adapters/sqlite/commit/writer.ts'
import type { Database } from '../../adapters/sqlite/database.ts'
import { errorOf } from '../../adapters/sqlite/failure.ts'
import { createLinks } from '../../adapters/sqlite/links.ts'
import { migrate } from '../../adapters/sqlite/migrate.ts'
import { nodeSqliteDialect } from '../../adapters/sqlite/nodeSqliteDialect.ts'
import type { Answers } from '../../adapters/sqlite/payments/answers.ts'
import { createBooks } from '../../adapters/sqlite/payments/books.ts'
import { createLeases } from '../../adapters/sqlite/payments/leases.ts'
import { createPurchases } from '../../adapters/sqlite/payments/purchases.ts'
import type { ReaderThread } from '../../adapters/sqlite/reader/readerThread.ts'
import { createSessions } from '../../adapters/sqlite/sessions/sessions.ts'
import { createStores } from '../../adapters/sqlite/stores.ts'
import type { ServedLink } from '../../core/domain/link.ts'
import { linkDefaults } from '../../core/domain/linkDefaults.ts'
import { webhookKinds } from '../../core/domain/webhook.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { DataStore } from '../../core/ports/store/store.ts'
import { testPayTo } from '../helpers/settler.ts'

/** What every process of a seed shares. */
export interface SharedStore extends Pick<DataStore, 'books' | 'leases' | 'purchases' | 'sessions'> {
  readonly kind: 'memory' | 'sqlite'
  /** One that is charged after the answer, one before. */
  readonly links: readonly ServedLink[]
  /** Everything that is visible by now is on disk. */
  flush(): void
  /** What was not flushed is gone; only where the store can be cut off. */
  powerCut?(): void
  /** How many purchases there are, whoever's. */
  countPurchases(): number
}

/** Clocks of the seed that runs. */
export interface Clocks {
  readonly wall: Clock
  readonly store: Clock
}

/** A store of its own for a seed: in memory, with a power that can be cut. */
export async function openMemoryStore({ wall, store }: Clocks): Promise<SharedStore> {
  const memory = createMemory(store)
  const data = openMemory({ memory, clock: wall })
  const links = await addLinks(data)
  // Somebody hears of everything, so that the ledger check demands it.
  const endpoint = { id: 'e', storeId: idOf(0), url: 'https://seller.test', description: '', salt: 's' }
  await data.webhooks.create({ ...endpoint, kinds: webhookKinds, createdAtMs: 0 }, 9)
  memory.flush()
  return {
    ...{ kind: 'memory', books: data.books, leases: data.leases, purchases: data.purchases, links },
    sessions: data.sessions,
    flush: () => memory.flush(),
    powerCut: () => memory.powerCut(),
    countPurchases: () => [...memory.tables.purchases.values()].length,
  }
}

/** The real tables and statements, run in this thread at once; for as many seeds as one likes. */
export interface InlineSqlite {
  /** The same tables, empty, for the next seed. */
  begin(clocks: Clocks): SharedStore
}

export async function openInlineSqlite(): Promise<InlineSqlite> {
  let clocks: Clocks = { wall: { now: () => 0 }, store: { now: () => 0 } }
  const wall: Clock = { now: () => clocks.wall.now() }
  const storeClock: Clock = { now: () => clocks.store.now() }
  const reader = new DatabaseSync(':memory:', { enableForeignKeyConstraints: true })
  await migrate(reader)
  const commit = createGroupCommit(reader, false)
  const writer: Writer = {
    async write(name, args) {
      const { results, failures } = commit([[name, args, false]])
      const failure = failures?.get(0)
      if (failure !== undefined) throw errorOf(failure)
      return results[0] as never
    },
    async close() {},
  }
  const query = new Kysely<Schema>({ dialect: nodeSqliteDialect(reader) })
  const database: Database = { reader, query, writer, clock: wall }
  const answer = reader.prepare('SELECT status, headers, body FROM answers WHERE payment_id = ?')
  const answers: Answers = {
    async of(row) {
      const found = answer.get(row)
      if (found === undefined) return undefined
      const { status, headers, body } = found
      return {
        status: Number(status),
        headers: JSON.parse(String(headers)) as string[],
        body: body as Uint8Array,
      }
    },
    async close() {},
  }
  // In virtual time nobody waits for a thread.
  const thread: ReaderThread = {
    read: async (...steps) => steps.map(({ sql, parameters }) => reader.prepare(sql).all(...parameters)),
    of: () => thread,
    async close() {},
  }
  const purchases = createPurchases(database, ':memory:', thread)
  const parts = {
    ...{ books: createBooks(database, answers, storeClock), leases: createLeases(database, storeClock) },
    ...{
      purchases,
      links: createLinks(database, thread, thread),
      stores: createStores(database),
    },
    sessions: createSessions(database, thread),
  }
  const links = await addLinks(parts as unknown as DataStore)
  const count = reader.prepare('SELECT count(*) AS n FROM purchases')
  const tables = [
    'payment_sessions',
    ...['sums_due', 'own_sales', 'buyers', 'sales_sums', 'fee_sums'],
    'ledger',
    'refunds',
    'purchases',
    'answers',
    'attempts',
    'payment_payloads',
  ]
  const clear = [...tables, 'payments', 'leases', 'sqlite_sequence'].map((table) =>
    reader.prepare(`DELETE FROM ${table}`),
  )
  return {
    begin(next) {
      clocks = next
      for (const statement of clear) statement.run()
      return {
        ...{ kind: 'sqlite', books: parts.books, leases: parts.leases, purchases, links },
        sessions: parts.sessions,
        flush() {},
        countPurchases: () => Number(count.get()!['n']),
      }
    },
  }
}

async function addLinks(store: Pick<DataStore, 'links' | 'stores'>): Promise<ServedLink[]> {
  const storeId = idOf(0)
  const times = { createdAtMs: 0, updatedAtMs: 0 }
  const names = { username: 'demo', displayName: '', bio: '', avatarUrl: '', developerModeEnabled: true }
  await store.stores.create(
    { id: storeId, ...names, createdBy: 'operator', payout: { base: testPayTo, solana: null }, ...times },
    null,
    {
      ...{ id: idOf(1), storeId, name: 'k', keyPrefix: 'tg_live_', keyHash: 'x', isActive: true },
      ...{ lastUsedAtMs: null, revokedAtMs: null, createdAtMs: 0 },
    },
  )
  const links: ServedLink[] = []
  for (const [i, settle] of (['after', 'before'] as const).entries()) {
    await store.links.create({
      ...linkDefaults,
      ...{ id: idOf(2 + i), storeId, slug: settle, settle, url: 'http://seller.test/', title: settle },
      ...{ price: '0.10', isPublic: true, isActive: true, ...times },
    })
    links.push((await store.links.served('demo', settle))!)
  }
  return links
}

const idOf = (n: number) => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`
