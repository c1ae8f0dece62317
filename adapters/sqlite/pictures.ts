import type { Pictures } from '../../core/ports/store/pictures.ts'
import type { Database } from './database.ts'
import { reading } from './failure.ts'

/** Pictures in SQLite: rows that triggers take away when no store shows them any more (migration 0017). */
export function createPictures({ reader, writer }: Database): Pictures {
  const picture = reader.prepare('SELECT media_type, bytes FROM pictures WHERE hash = ?')
  return {
    async set(storeId, { hash, mediaType, bytes }, avatarUrl, updatedAtMs) {
      await writer.write('runAll', [
        {
          sql: 'INSERT INTO pictures (hash, media_type, bytes) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
          parameters: [hash, mediaType, bytes],
        },
        {
          sql: `INSERT INTO store_pictures (store_id, hash) VALUES (?, ?)
            ON CONFLICT (store_id) DO UPDATE SET hash = excluded.hash`,
          parameters: [storeId, hash],
        },
        {
          sql: 'UPDATE stores SET avatar_url = ?, updated_at_ms = ? WHERE id = ?',
          parameters: [avatarUrl, updatedAtMs, storeId],
        },
      ])
    },

    async find(hash) {
      const row = reading(() => picture.get(hash))
      return row && { hash, mediaType: String(row['media_type']), bytes: row['bytes'] as Uint8Array }
    },
  }
}
