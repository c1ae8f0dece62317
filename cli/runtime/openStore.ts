import { openSqlite, type SqliteStore } from '../../adapters/sqlite/openSqlite.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import { readConfig } from './readConfig.ts'

/** Opens the database that a configuration names, and nothing else of it. */
export async function openStore(
  configFile: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<SqliteStore> {
  const { config } = await readConfig(configFile, env)
  return openSqlite({ path: config.storage.path, clock: systemClock, log: silentLog })
}
