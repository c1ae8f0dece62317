import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Kysely } from 'kysely'
import type { Schema } from '../../../adapters/store/sql/schema.ts'
import { connectReader, connectWriter } from '../../../adapters/store/sqlite/connect.ts'
import { migrate, statements } from '../../../adapters/store/sqlite/migrate.ts'
import { nodeSqliteDialect } from '../../../adapters/store/sqlite/nodeSqliteDialect.ts'
import { createPorts, type SqliteStore } from '../../../adapters/store/sqlite/openSqlite.ts'
import { type Clock, machineClock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import { storeUnavailable } from '../../../core/ports/refusals.ts'
import { createInThreadReaders, createInThreadWriter } from './inThread.ts'

/** A database of a test, for as many stores as the test has processes. Its file is removed when the test's process ends. */
export interface TestDatabase {
  readonly path: string
  readonly writer: ReturnType<typeof createInThreadWriter>
}

export interface TestStoreOptions {
  /** Default: a database of its own. */
  readonly database?: TestDatabase
  /** People's time. */
  readonly clock?: Clock
  /** The time of leases and due times. */
  readonly storeClock?: Clock
  readonly log?: Log
}

const template = await prepareTemplate()
let folder: string | undefined
let databases = 0

export function createTestDatabase(): TestDatabase {
  if (folder === undefined) {
    const own = (folder = mkdtempSync(join(tmpdir(), 'tollgate-test-')))
    process.once('exit', () => rmSync(own, { recursive: true, force: true }))
  }
  const path = join(folder, `${databases++}.db`)
  copyFileSync(template, path)
  return { path, writer: createInThreadWriter(connectWriter(path, false)) }
}

/**
 * A store on SQLite whose writes and reads run in this thread: it opens in milliseconds, and a call is done when it returns. A
 * second connection reads, so that nothing is seen before it is committed.
 */
export function openTestStore({
  database: { path, writer } = createTestDatabase(),
  clock = systemClock,
  storeClock = machineClock,
  log = silentLog,
}: TestStoreOptions = {}): Omit<SqliteStore, 'backup'> {
  let isClosed = false
  const reader = connectReader(path)
  const { thread, responses } = createInThreadReaders(reader)
  const database = {
    reader,
    query: new Kysely<Schema>({ dialect: nodeSqliteDialect(reader) }),
    clock,
    writer: {
      ...writer,
      write: ((...args) =>
        isClosed
          ? Promise.reject(storeUnavailable('it was closed'))
          : writer.write(...args)) as typeof writer.write,
    },
  }
  const ports = createPorts({ database, path, responses, thread, slowThread: thread, storeClock, log })
  return {
    ...ports,
    async close() {
      isClosed = true
      await ports.changes.close()
      ports.mailbox.close()
      if (reader.isOpen) reader.close()
    },
  }
}

/** An empty database with all tables, made once for each schema: making one takes longer than most tests. */
async function prepareTemplate(): Promise<string> {
  const folder = join(import.meta.dirname, '../../../node_modules/.cache/tollgate')
  const hash = createHash('sha256').update(JSON.stringify(statements)).digest('hex').slice(0, 16)
  const path = join(folder, `${hash}.db`)
  if (existsSync(path)) return path
  mkdirSync(folder, { recursive: true })
  const own = `${path}.${process.pid}`
  const connection = connectWriter(own, false)
  await migrate(connection)
  connection.close()
  renameSync(own, path)
  return path
}
