import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { type Dialect, SqliteDialect, type SqliteStatement } from 'kysely'
import { LRUCache } from 'lru-cache'
import { reading } from './failure.ts'

/** Maximum number of statements that stay prepared. A query with a list of ids has another text for each length of the list. */
const MAX_PREPARED = 200

/**
 * Connects Kysely to `node:sqlite`. Kysely expects the statements of better-sqlite3, which report whether they return rows and take
 * their parameters as one array. Destroying the Kysely instance leaves the database open.
 */
export function nodeSqliteDialect(database: DatabaseSync): Dialect {
  const bound = (parameters: readonly unknown[]) => parameters as readonly SQLInputValue[]
  /** Statements are cached by their text, because preparing one takes as long as reading its rows. */
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
