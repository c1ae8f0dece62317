import { type ExpressionBuilder, type Selectable, sql } from 'kysely'
import { usernameTaken, walletTaken } from '../../core/ports/refusals.ts'
import type { Stores } from '../../core/ports/store/stores.ts'
import { REDIRECT_MS } from '../sql/links/linkReads.ts'
import type { Schema, StoreTable } from '../sql/schema.ts'
import { toApiKeyColumns } from '../sql/stores/apiKeyRows.ts'
import { anySaleOf, dayMs, renamesRefused, storeReads } from '../sql/stores/storeReads.ts'
import { toNewStoreColumns, toStore, toStoreColumns } from '../sql/stores/storeRows.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'
import { ConstraintError } from './failure.ts'

/** Stores in SQLite. A former username belongs to its store as long as it redirects: no other store may take it. */
export function createStores({ query, writer }: Database): Stores {
  return {
    async create(store, wallet, key) {
      const { id } = store
      const steps = [compiled(query.insertInto('stores').values(toNewStoreColumns(store)))]
      if (wallet !== null) {
        const { chain, address } = wallet
        steps.push(compiled(query.insertInto('store_wallets').values({ chain, address, store_id: id })))
      }
      if (key !== null) steps.push(compiled(query.insertInto('api_keys').values(toApiKeyColumns(key))))
      await writer.write('runAll', steps).catch(taken(store.username))
    },

    async update(id, patch, updatedAtMs, rules = {}) {
      const { maxRenamesADay = Number.MAX_SAFE_INTEGER, payoutWas = {} } = rules
      const isStillPaidThere = (e: ExpressionBuilder<Schema, 'stores'>) => {
        const { base, solana } = payoutWas
        return e.and([
          ...(base === undefined ? [] : [e('payout_base', 'is', base)]),
          ...(solana === undefined ? [] : [e('payout_solana', 'is', solana)]),
        ])
      }
      const renamed = (username: string) =>
        query
          .selectFrom('stores')
          .where('id', '=', id)
          .where('username', '<>', username)
          .where(isStillPaidThere)
      const rename = (username: string) => [
        query
          .insertInto('renames')
          .columns(['store_id', 'at_ms', 'max_a_day'])
          .expression(
            renamed(username).select((c) => [
              'id',
              c.val(updatedAtMs).as('at_ms'),
              c.val(maxRenamesADay).as('max_a_day'),
            ]),
          ),
        query
          .deleteFrom('renames')
          .where('store_id', '=', id)
          .where('at_ms', '<=', updatedAtMs - dayMs),
        // A store without sales keeps one former name: of sixty names in a month, fifty-nine are free for other stores.
        query
          .deleteFrom('username_redirects')
          .where('store_id', '=', id)
          .where((e) => e.exists(renamed(username).select('id')))
          .where((e) =>
            e.or([
              e('username', '=', username),
              e('expires_at_ms', '<=', updatedAtMs),
              e.not(e.exists(anySaleOf(query, id))),
            ]),
          ),
        query
          .deleteFrom('username_redirects')
          .where('username', '=', username)
          .where('expires_at_ms', '<=', updatedAtMs),
        query
          .insertInto('username_redirects')
          .columns(['username', 'store_id', 'expires_at_ms'])
          .expression(
            renamed(username).select((c) => [
              'username',
              'id',
              c.val(updatedAtMs + REDIRECT_MS).as('expires_at_ms'),
            ]),
          )
          .onConflict((c) =>
            c.column('username').doUpdateSet((e) => ({
              store_id: e.ref('excluded.store_id'),
              expires_at_ms: e.ref('excluded.expires_at_ms'),
            })),
          ),
      ]
      const change = query
        .updateTable('stores')
        .set({
          ...toStoreColumns(patch),
          ...(patch.payout !== undefined && { payout_changed_at_ms: updatedAtMs }),
          ...(patch.payout?.base !== undefined && {
            payout_base_since_ms: sql<number>`iif(payout_base IS ${patch.payout.base}, payout_base_since_ms, ${updatedAtMs})`,
          }),
          ...(patch.payout?.solana !== undefined && {
            payout_solana_since_ms: sql<number>`iif(payout_solana IS ${patch.payout.solana}, payout_solana_since_ms, ${updatedAtMs})`,
          }),
          updated_at_ms: updatedAtMs,
        })
        .where('id', '=', id)
        .where(isStillPaidThere)
        .returningAll()
      const steps = [...(patch.username === undefined ? [] : rename(patch.username)), change].map(compiled)
      const results = await writer.write('runAll', steps).catch(async (error) => {
        if (error instanceof ConstraintError && error.message.includes('too many renames')) {
          throw await renamesRefused(query, id, maxRenamesADay, updatedAtMs)
        }
        return taken(patch.username)(error)
      })
      const row = results.at(-1)!.rows[0]
      return row && toStore(row as unknown as Selectable<StoreTable>)
    },

    ...storeReads(query),
  }
}

const taken = (username: string | undefined) => (error: unknown) => {
  if (error instanceof ConstraintError && error.message.includes('stores.username'))
    throw usernameTaken(username, { cause: error })
  if (error instanceof ConstraintError && error.message.includes('store_wallets'))
    throw walletTaken({ cause: error })
  throw error
}
