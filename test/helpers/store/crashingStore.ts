import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { createLeases } from '../../../adapters/store/repositories/leases.ts'
import type { Schema } from '../../../adapters/store/sql/schema.ts'
import { migrate } from '../../../adapters/store/sqlite/migrate.ts'
import { nodeSqliteDialect } from '../../../adapters/store/sqlite/nodeSqliteDialect.ts'
import { callsTo, createPorts } from '../../../adapters/store/sqlite/openSqlite.ts'
import { checkLedgerOn } from '../../../adapters/store/sqlite/payments/ledgerCheck.ts'
import { readsOf } from '../../../adapters/store/sqlite/templates.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import { createInThreadReaders, createInThreadWriter } from './inThread.ts'

/** No process looks for what another one changed. */
const NEVER_MS = 2 ** 31 - 1

export interface CrashingStore extends DataStore {
  /** Everything that is visible by now is on disk. */
  flush(): void
  /** What was not flushed is gone. */
  powerCut(): void
  /** What is there now is what {@link startAgain} returns to. */
  keep(): void
  startAgain(): void
  countPurchases(): number
  /** Runs SQL outside of the store's transactions, for the mistakes of a test. */
  execute(sql: string): void
}

/** The tables and statements of SQLite, in memory and run in this thread at once, whose power can be cut. */
export async function openCrashingStore(clock: Clock, storeClock: Clock): Promise<CrashingStore> {
  const connection = new CrashingConnection(':memory:', { enableForeignKeyConstraints: true })
  await migrate(connection)
  connection.begin()
  const writer = createInThreadWriter(connection, (durability) => connection.committed(durability))
  const query = new Kysely<Schema>({ dialect: nodeSqliteDialect(connection) })
  const database = { reader: connection, query, writer, clock }
  const { thread, responses } = createInThreadReaders(connection)
  const ports = createPorts(
    { database, path: ':memory:', responses, thread, slowThread: thread, storeClock, log: silentLog },
    NEVER_MS,
  )
  const count = connection.prepare('SELECT count(*) AS n FROM purchases')
  return {
    ...ports,
    // Processes of a test are none of the machine's: whether one is there, only its lease says.
    leases: createLeases({
      calls: callsTo(writer, clock, storeClock),
      reads: readsOf(connection),
      storeNow: () => storeClock.now(),
      holder: null,
    }),
    purchases: {
      ...ports.purchases,
      ledgerCheck: (ears) => checkLedgerOn(connection, clock.now(), ears),
    },
    async close() {
      await ports.changes.close()
      ports.mailbox.close()
      connection.close()
    },
    flush: () => connection.flush(),
    powerCut: () => connection.powerCut(),
    keep: () => connection.keep(),
    startAgain: () => connection.startAgain(),
    countPurchases: () => Number(count.get()!['n']),
    execute: (sql) => connection.exec(sql),
  }
}

/** A transaction of the store is a savepoint in the one that lasts from flush to flush. */
const nested: Readonly<Record<string, string>> = {
  BEGIN: 'SAVEPOINT "transaction"',
  'BEGIN IMMEDIATE': 'SAVEPOINT "transaction"',
  COMMIT: 'RELEASE "transaction"',
  ROLLBACK: 'ROLLBACK TO "transaction"; RELEASE "transaction"',
}

/** A connection whose disk is a savepoint: what was committed since the last flush is rolled back when the power is cut. */
class CrashingConnection extends DatabaseSync {
  #isNesting = false
  /** Something was committed since the last flush. */
  #isUnflushed = false

  override prepare(sql: string) {
    return super.prepare(this.#isNesting ? (nested[sql] ?? sql) : sql)
  }

  override exec(sql: string): void {
    super.exec(this.#isNesting ? (nested[sql] ?? sql) : sql)
  }

  begin(): void {
    this.#isNesting = true
    super.exec('BEGIN; SAVEPOINT flushed')
  }

  committed(durability: 'flushed' | 'visible'): void {
    this.#isUnflushed = true
    if (durability === 'flushed') this.flush()
  }

  flush(): void {
    if (!this.#isUnflushed) return
    this.#isUnflushed = false
    super.exec('RELEASE flushed; SAVEPOINT flushed')
  }

  powerCut(): void {
    this.#isUnflushed = false
    super.exec('ROLLBACK TO flushed')
  }

  keep(): void {
    super.exec('COMMIT')
    this.begin()
  }

  startAgain(): void {
    this.#isUnflushed = false
    super.exec('ROLLBACK')
    this.begin()
  }
}
