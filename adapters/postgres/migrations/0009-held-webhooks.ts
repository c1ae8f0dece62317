import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'
import { DELIVERY_LEASE_MS } from '../../../core/ports/store/webhooks.ts'
import { takeWebhooks } from './0004-webhooks.ts'

/** A delivery that was taken after the time by which it is judged is nobody else's: see LONGEST_HELD_MS of core/ports/store/webhooks.ts. */
export const heldWebhooks: Migration = {
  async up(db: Kysely<unknown>) {
    await sql.raw(takeWebhooks(DELIVERY_LEASE_MS + 5_000)).execute(db)
  },
}
