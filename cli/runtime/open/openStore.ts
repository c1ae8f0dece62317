import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import type { Config } from '../../../core/config/schema.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import { readConfig } from '../readConfig.ts'

/** Opens the database that a configuration selects. */
export async function openDataStore(
  { storage }: Pick<Config, 'storage'>,
  clock: Clock,
  log: Log,
): Promise<DataStore> {
  if (storage.postgres === undefined) return openSqlite({ path: storage.path, clock, log })
  // A gateway with a SQLite file does not load the PostgreSQL driver.
  const { openPostgres } = await import('../../../adapters/store/postgres/openPostgres.ts')
  return openPostgres({ ...storage.postgres, clock, log })
}

/** Opens only the database of a configuration file. */
export async function openStore(
  configFile: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<DataStore> {
  const { config } = await readConfig(configFile, env)
  return openDataStore(config, systemClock, silentLog)
}
