import { openSqlite } from '../../adapters/sqlite/openSqlite.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import type { DataStore } from '../../core/ports/store/store.ts'
import type { StoreAt } from './place.ts'

/** Opens the store of a bench's program. */
export async function openStoreAt(at: StoreAt): Promise<DataStore> {
  const options = { clock: systemClock, log: silentLog }
  if (!('postgresUrl' in at)) return openSqlite({ ...options, path: at.dbPath })
  // As in the shipped command, its driver costs whoever has a file nothing.
  const { openPostgres } = await import('../../adapters/postgres/openPostgres.ts')
  return openPostgres({ ...options, url: at.postgresUrl, schema: at.schema })
}
