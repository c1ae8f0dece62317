import type { SQLInputValue, SQLOutputValue } from 'node:sqlite'

export type Row = Record<string, SQLOutputValue>

/** A statement that Kysely compiled, in a form that crosses threads. */
export interface Statement {
  readonly sql: string
  readonly parameters: readonly SQLInputValue[]
}
