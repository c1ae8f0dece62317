import type { SQLInputValue } from 'node:sqlite'
import type { Compilable } from 'kysely'
import type { Statement } from './statement.ts'

/** What the writer needs of a Kysely query: its text and its values. */
export function compiled(query: Compilable): Statement {
  const { sql, parameters } = query.compile()
  return { sql, parameters: parameters as readonly SQLInputValue[] }
}
