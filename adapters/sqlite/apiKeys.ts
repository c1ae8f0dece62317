import { tooManyKeys } from '../../core/ports/refusals.ts'
import type { ApiKeys } from '../../core/ports/store/stores.ts'
import type { ApiKeyTable } from '../sql/schema.ts'
import { apiKeyQueries } from '../sql/stores/apiKeyQueries.ts'
import { toApiKey, toApiKeyColumns } from '../sql/stores/apiKeyRows.ts'
import { rarelyTouched } from '../sql/stores/rarelyTouched.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'
import { reading } from './failure.ts'

/** API keys in SQLite: their HMACs, never the keys. */
export function createApiKeys({ reader, query, writer }: Database): ApiKeys {
  const byHashRow = reader.prepare('SELECT * FROM api_keys WHERE key_hash = ?')
  const queries = apiKeyQueries(query)
  const isTouchDue = rarelyTouched()

  return {
    async add(key, maxActive) {
      const columns = toApiKeyColumns(key)
      const names = Object.keys(columns) as (keyof ApiKeyTable)[]
      const row = query
        .selectNoFrom((e) => names.map((name) => e.val(columns[name]).as(name)))
        .where(queries.countOfActive(key.storeId), '<', maxActive)
      const insert = query.insertInto('api_keys').columns(names).expression(row)
      const { changes } = await writer.write('run', compiled(insert))
      if (changes > 0) return
      throw tooManyKeys(maxActive)
    },

    async ofStore(storeId) {
      return (await queries.ofStore(storeId).execute()).map(toApiKey)
    },

    async byHash(keyHash) {
      const row = reading(() => byHashRow.get(keyHash))
      return row && toApiKey(row as unknown as ApiKeyTable)
    },

    async revoke(storeId, id, atMs) {
      const row = (await writer.write('run', compiled(queries.revoke(storeId, id, atMs)))).rows[0]
      return row && toApiKey(row as unknown as ApiKeyTable)
    },

    async touch(id, atMs) {
      if (isTouchDue(id, atMs)) await writer.write('run', compiled(queries.touch(id, atMs)), 'visible')
    },
  }
}
