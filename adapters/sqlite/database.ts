import type { DatabaseSync } from 'node:sqlite'
import type { Kysely } from 'kysely'
import type { Clock } from '../../core/ports/clock.ts'
import type { Schema } from '../sql/schema.ts'
import type { Writer } from './commit/writer.ts'

/** What the ports of this folder are made of. */
export interface Database {
  /** Read-only connection of the main thread, for lookups of microseconds and statements prepared by hand. */
  readonly reader: DatabaseSync
  /** The typed query layer over `reader`; writes are compiled with it and handed to the writer. */
  readonly query: Kysely<Schema>
  readonly writer: Writer
  readonly clock: Clock
}
