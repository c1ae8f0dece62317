import { sql, type Transaction } from 'kysely'
import type { Payout } from '../../../core/domain/link.ts'
import { usernameTaken, walletTaken } from '../../../core/ports/refusals.ts'
import type { StorePatch, Stores } from '../../../core/ports/store/stores.ts'
import { REDIRECT_MS } from '../../sql/links/linkReads.ts'
import type { Schema } from '../../sql/schema.ts'
import { toApiKeyColumns } from '../../sql/stores/apiKeyRows.ts'
import { anySaleOf, dayMs, renamesRefused, storeReads } from '../../sql/stores/storeReads.ts'
import { toNewStoreColumns, toStore, toStoreColumns } from '../../sql/stores/storeRows.ts'
import type { Database } from '../database.ts'
import { ConstraintError } from '../failure.ts'
import { transact } from '../transact.ts'

/** Stores in PostgreSQL. A former username belongs to its store as long as it redirects: no other store may take it. */
export function createStores(database: Pick<Database, 'query'>): Stores {
  const { query } = database
  return {
    ...storeReads(query),

    async create(store, wallet, key) {
      await transact(database, async (transaction) => {
        await transaction.insertInto('stores').values(toNewStoreColumns(store)).execute()
        if (wallet !== null) {
          const { chain, address } = wallet
          await transaction
            .insertInto('store_wallets')
            .values({ chain, address, store_id: store.id })
            .execute()
        }
        if (key !== null) await transaction.insertInto('api_keys').values(toApiKeyColumns(key)).execute()
      }).catch(taken(store.username))
    },

    async update(id, patch, updatedAtMs, rules = {}) {
      const { maxRenamesADay = Number.MAX_SAFE_INTEGER, payoutWas = {} } = rules
      const updated = transact(database, async (transaction) => {
        // Whatever a change of the store depends on is asked while nobody else can change it.
        const found = await transaction
          .selectFrom('stores')
          .select(['username', 'payout_base', 'payout_solana'])
          .where('id', '=', id)
          .forUpdate()
          .executeTakeFirst()
        if (found === undefined) return undefined
        if (!isPaidThere({ base: found.payout_base, solana: found.payout_solana }, payoutWas))
          return undefined
        const { username } = patch
        if (username !== undefined && username !== found.username)
          await rename(transaction, { id, from: found.username, to: username, maxRenamesADay, updatedAtMs })
        return transaction
          .updateTable('stores')
          .set({ ...toStoreColumns(patch), ...payoutTimes(patch, updatedAtMs), updated_at_ms: updatedAtMs })
          .where('id', '=', id)
          .returningAll()
          .executeTakeFirst()
      })
      const row = await updated.catch(async (error) => {
        if (error instanceof ConstraintError && error.constraint === 'renames_counted')
          throw await renamesRefused(query, id, maxRenamesADay, updatedAtMs)
        return taken(patch.username)(error)
      })
      return row && toStore(row)
    },
  }
}

const isPaidThere = (is: Payout, was: Partial<Payout>): boolean =>
  (was.base === undefined || was.base === is.base) && (was.solana === undefined || was.solana === is.solana)

const payoutTimes = ({ payout }: StorePatch, atMs: number) => ({
  ...(payout !== undefined && { payout_changed_at_ms: atMs }),
  ...(payout?.base !== undefined && {
    payout_base_since_ms: sql<number>`CASE WHEN payout_base IS NOT DISTINCT FROM ${payout.base}
      THEN payout_base_since_ms ELSE ${atMs} END`,
  }),
  ...(payout?.solana !== undefined && {
    payout_solana_since_ms: sql<number>`CASE WHEN payout_solana IS NOT DISTINCT FROM ${payout.solana}
      THEN payout_solana_since_ms ELSE ${atMs} END`,
  }),
})

interface Rename {
  readonly id: string
  readonly from: string
  readonly to: string
  readonly maxRenamesADay: number
  readonly updatedAtMs: number
}

/** What a rename leaves behind; a trigger counts it, another one refuses a name that is somebody's. */
async function rename(
  transaction: Transaction<Schema>,
  { id, from, to, maxRenamesADay, updatedAtMs }: Rename,
): Promise<void> {
  await transaction
    .insertInto('renames')
    .values({ store_id: id, at_ms: updatedAtMs, max_a_day: maxRenamesADay })
    .execute()
  await transaction
    .deleteFrom('renames')
    .where('store_id', '=', id)
    .where('at_ms', '<=', updatedAtMs - dayMs)
    .execute()
  // A store without sales keeps one former name: of sixty names in a month, fifty-nine are free for other stores.
  const sale = await anySaleOf(transaction, id).executeTakeFirst()
  await transaction
    .deleteFrom('username_redirects')
    .where((e) => {
      const isOwn = e('store_id', '=', id)
      const isTaken = e('username', '=', to)
      const isOver = e('expires_at_ms', '<=', updatedAtMs)
      const goes = sale === undefined ? isOwn : e.and([isOwn, e.or([isTaken, isOver])])
      return e.or([goes, e.and([isTaken, isOver])])
    })
    .execute()
  await transaction
    .insertInto('username_redirects')
    .values({ username: from, store_id: id, expires_at_ms: updatedAtMs + REDIRECT_MS })
    .onConflict((c) =>
      c.column('username').doUpdateSet((e) => ({
        store_id: e.ref('excluded.store_id'),
        expires_at_ms: e.ref('excluded.expires_at_ms'),
      })),
    )
    .execute()
}

const taken = (username: string | undefined) => (error: unknown) => {
  if (error instanceof ConstraintError && error.constraint === 'stores_username_key')
    throw usernameTaken(username, { cause: error })
  if (error instanceof ConstraintError && error.constraint === 'store_wallets_pkey')
    throw walletTaken({ cause: error })
  throw error
}
