import { tooManyKeys } from '../../../core/ports/refusals.ts'
import type { ApiKeys } from '../../../core/ports/store/stores.ts'
import { apiKeyQueries } from '../../sql/stores/apiKeyQueries.ts'
import { toApiKey, toApiKeyColumns } from '../../sql/stores/apiKeyRows.ts'
import { rarelyTouched } from '../../sql/stores/rarelyTouched.ts'
import type { Database } from '../database.ts'
import { transact, unflushed } from '../transact.ts'
import { holdStore } from './holdStore.ts'

/** API keys in PostgreSQL: their HMACs, never the keys. */
export function createApiKeys(database: Pick<Database, 'query'>): ApiKeys {
  const { query } = database
  const queries = apiKeyQueries(query)
  const isTouchDue = rarelyTouched()

  return {
    async add(key, maxActive) {
      await transact(database, async (transaction) => {
        await holdStore(transaction, key.storeId)
        const active = apiKeyQueries(transaction).countOfActive(key.storeId)
        const { count } = await active.executeTakeFirstOrThrow()
        if (count >= maxActive) throw tooManyKeys(maxActive)
        await transaction.insertInto('api_keys').values(toApiKeyColumns(key)).execute()
      })
    },

    async ofStore(storeId) {
      return (await queries.ofStore(storeId).execute()).map(toApiKey)
    },

    async byHash(keyHash) {
      const row = await query
        .selectFrom('api_keys')
        .selectAll()
        .where('key_hash', '=', keyHash)
        .executeTakeFirst()
      return row && toApiKey(row)
    },

    async revoke(storeId, id, atMs) {
      const row = await queries.revoke(storeId, id, atMs).executeTakeFirst()
      return row && toApiKey(row)
    },

    async touch(id, atMs) {
      if (isTouchDue(id, atMs)) await queries.touch(id, atMs).where(unflushed).execute()
    },
  }
}
