import { openSqlite } from '../../../adapters/sqlite/openSqlite.ts'
import type { Config } from '../../../core/config/types.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import { readConfig } from '../readConfig.ts'

/** Opens the store that a configuration chooses. */
export async function openDataStore(
  { storage }: Pick<Config, 'storage'>,
  clock: Clock,
  log: Log,
): Promise<DataStore> {
  if (storage.postgres === undefined) return openSqlite({ path: storage.path, clock, log })
  // Its driver costs a gateway that has a file nothing.
  const { openPostgres } = await import('../../../adapters/postgres/openPostgres.ts')
  return openPostgres({ ...storage.postgres, clock, log })
}

/** Opens the store that a configuration file names, and nothing else of it. */
export async function openStore(
  configFile: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<DataStore> {
  const { config } = await readConfig(configFile, env)
  return openDataStore(config, systemClock, silentLog)
}
