import type { Kysely } from 'kysely'
import type pg from 'pg'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Schema } from '../sql/schema.ts'

/** The connections and clocks that the modules of this folder share. */
export interface Database {
  readonly pool: pg.Pool
  /** The typed query layer over `pool`. It throws the errors of `failure.ts`. */
  readonly query: Kysely<Schema>
  /** Wall-clock time. */
  readonly clock: Clock
  /** The time for leases and due times, in ms since 1970. Null means the server's clock. */
  readonly storeNowMs: () => number | null
}
