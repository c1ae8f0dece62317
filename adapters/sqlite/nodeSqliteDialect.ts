import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { type Dialect, SqliteDialect, type SqliteStatement } from 'kysely'
import { LRUCache } from 'lru-cache'
import { reading } from './failure.ts'

/** Texts of queries that stay prepared; lists of ids make one for each length. */
const MAX_PREPARED = 200

/**
 * Kysely over `node:sqlite`. Kysely expects better-sqlite3's statements, which know whether they return rows and take
 * their parameters as one array; these few lines are the difference. Destroying the Kysely instance leaves the database open.
 */
export function nodeSqliteDialect(database: DatabaseSync): Dialect {
  const bound = (parameters: readonly unknown[]) => parameters as readonly SQLInputValue[]
  /** By their text: preparing one takes as long as what is read by it. */
  const prepared = new LRUCache<string, SqliteStatement>({ max: MAX_PREPARED })
  function prepare(sql: string): SqliteStatement {
    const statement = reading(() => database.prepare(sql))
    return {
      reader: statement.columns().length > 0,
      all: (parameters) => reading(() => statement.all(...bound(parameters))),
      run: (parameters) => reading(() => statement.run(...bound(parameters))),
      iterate: (parameters) => statement.iterate(...bound(parameters)),
    }
  }
  return new SqliteDialect({
    database: {
      close() {},
      prepare(sql) {
        let statement = prepared.get(sql)
        if (statement === undefined) prepared.set(sql, (statement = prepare(sql)))
        return statement
      },
    },
  })
}
