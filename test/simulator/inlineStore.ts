import type { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { connectWriter } from '../../adapters/sqlite/connect.ts'
import { errorOf } from '../../adapters/sqlite/failure.ts'
import { createGroupCommit } from '../../adapters/sqlite/groupCommit.ts'
import { createLinks } from '../../adapters/sqlite/links.ts'
import { migrate } from '../../adapters/sqlite/migrate.ts'
import { nodeSqliteDialect } from '../../adapters/sqlite/nodeSqliteDialect.ts'
import { createPayments } from '../../adapters/sqlite/payments.ts'
import { createPurchases } from '../../adapters/sqlite/purchases.ts'
import type { Schema } from '../../adapters/sqlite/schema.ts'
import { createStores } from '../../adapters/sqlite/stores.ts'
import type { Writer } from '../../adapters/sqlite/writer.ts'
import type { Clock } from '../../core/ports/clock.ts'

/** The real tables and statements, run in this thread at once: what waits is up to the simulator. */
export async function openInlineStore(clock: Clock) {
  const reader = connectWriter(':memory:', 'OFF')
  await migrate(reader)
  const commit = createGroupCommit(reader)
  const writer: Writer = {
    async write(name, args) {
      const { results, failures } = commit([[name, args] as never])
      const failure = failures?.get(0)
      if (failure !== undefined) throw errorOf(failure)
      return results[0] as never
    },
    async close() {},
  }
  const query = new Kysely<Schema>({ dialect: nodeSqliteDialect(reader) })
  const database = { reader, query, writer, clock }
  return {
    payments: createPayments(database),
    purchases: createPurchases(database, ':memory:'),
    links: createLinks(database),
    stores: createStores(database),
    all: (sql: string) => reader.prepare(sql).all() as Record<string, unknown>[],
    /** Forgets every payment; stores and links stay. */
    clear: () => clear(reader),
  }
}

export type InlineStore = Awaited<ReturnType<typeof openInlineStore>>

function clear(database: DatabaseSync): void {
  for (const table of [
    ...['ledger_entries', 'refunds', 'purchases', 'answers', 'attempts', 'payment_payloads', 'payments'],
    'heartbeats',
  ]) {
    database.exec(`DELETE FROM ${table}`)
  }
}
