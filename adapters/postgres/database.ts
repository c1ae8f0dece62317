import type { Expression, Kysely } from 'kysely'
import type pg from 'pg'
import type { Clock } from '../../core/ports/clock.ts'
import type { Schema } from '../sql/schema.ts'

/** What the ports of this folder are made of. */
export interface Database {
  readonly pool: pg.Pool
  /** The typed query layer over `pool`; what it throws is what `failure.ts` says. */
  readonly query: Kysely<Schema>
  /** People's time. */
  readonly clock: Clock
  /** The time of leases and due times, as a piece of SQL: the server's clock, in ms since 1970. */
  readonly storeNow: () => Expression<number>
  /** The same for statements that are written by hand: null means the server's clock. */
  readonly storeNowMs: () => number | null
}
