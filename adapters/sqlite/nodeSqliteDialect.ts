import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { type Dialect, SqliteDialect } from 'kysely'
import { reading } from './failure.ts'

/**
 * Kysely over `node:sqlite`. Kysely expects better-sqlite3's statements, which know whether they return rows and take
 * their parameters as one array; these few lines are the difference. Destroying the Kysely instance leaves the database open.
 */
export function nodeSqliteDialect(database: DatabaseSync): Dialect {
  const bound = (parameters: readonly unknown[]) => parameters as readonly SQLInputValue[]
  return new SqliteDialect({
    database: {
      close() {},
      prepare(sql) {
        const statement = reading(() => database.prepare(sql))
        return {
          reader: statement.columns().length > 0,
          all: (parameters) => reading(() => statement.all(...bound(parameters))),
          run: (parameters) => reading(() => statement.run(...bound(parameters))),
          iterate: (parameters) => statement.iterate(...bound(parameters)),
        }
      },
    },
  })
}
