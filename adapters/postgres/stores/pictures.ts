import { sql } from 'kysely'
import type { Pictures } from '../../../core/ports/store/pictures.ts'
import type { Database } from '../database.ts'
import { transact } from '../transact.ts'
import { holdStore } from './holdStore.ts'

/** Pictures in PostgreSQL: rows that triggers take away when no store shows them any more (migration 0003). */
export function createPictures(database: Pick<Database, 'query'>): Pictures {
  const { query } = database
  return {
    async set(storeId, { hash, mediaType, bytes }, avatarUrl, updatedAtMs) {
      await transact(database, async (transaction) => {
        await holdStore(transaction, storeId)
        // Written again where it is there: so whoever is about to take it away waits, and sees that it is shown.
        await sql`INSERT INTO pictures (hash, media_type, bytes) VALUES (${hash}, ${mediaType}, ${bytes})
          ON CONFLICT (hash) DO UPDATE SET media_type = pictures.media_type`.execute(transaction)
        await sql`INSERT INTO store_pictures (store_id, hash) VALUES (${storeId}, ${hash})
          ON CONFLICT (store_id) DO UPDATE SET hash = excluded.hash`.execute(transaction)
        await transaction
          .updateTable('stores')
          .set({ avatar_url: avatarUrl, updated_at_ms: updatedAtMs })
          .where('id', '=', storeId)
          .execute()
      })
    },

    async find(hash) {
      const { rows } = await sql<{ media_type: string; bytes: Uint8Array }>`
        SELECT media_type, bytes FROM pictures WHERE hash = ${hash}`.execute(query)
      return rows[0] && { hash, mediaType: rows[0].media_type, bytes: rows[0].bytes }
    },
  }
}
