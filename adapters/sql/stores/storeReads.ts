import { type Kysely, sql } from 'kysely'
import type { StoreWallet } from '../../../core/domain/store.ts'
import type { TollgateError } from '../../../core/errors/error.ts'
import { tooManyRenames } from '../../../core/ports/refusals.ts'
import type { Stores } from '../../../core/ports/store/stores.ts'
import type { Schema } from '../schema.ts'
import { toStore } from './storeRows.ts'

export const dayMs = 24 * 60 * 60 * 1000

/** One sale of a store, where it has any, or one payment to it that is under way. */
export const anySaleOf = (query: Kysely<Schema>, storeId: string) =>
  query
    .selectFrom('purchases')
    .select('store_id')
    .where('store_id', '=', storeId)
    .unionAll(
      query
        .selectFrom('payments')
        .select('store_id')
        .where('store_id', '=', storeId)
        // As it stands in the index of what is open: it is found by that, however much was sold.
        .where(
          sql<boolean>`(state <> 'delivered' OR due_at_ms IS NOT NULL) AND state IN ('claimed', 'settling', 'pending')`,
        ),
    )
    .limit(1)

/** How stores are read, in any SQL. */
export function storeReads(query: Kysely<Schema>): Omit<Stores, 'create' | 'update'> {
  return {
    async find(id) {
      const row = await query.selectFrom('stores').selectAll().where('id', '=', id).executeTakeFirst()
      return row && toStore(row)
    },

    async byUsername(username) {
      const row = await query
        .selectFrom('stores')
        .selectAll()
        .where('username', '=', username)
        .executeTakeFirst()
      return row && toStore(row)
    },

    async byWallet(chain, address) {
      const row = await query
        .selectFrom('store_wallets as w')
        .innerJoin('stores as s', 's.id', 'w.store_id')
        .selectAll('s')
        .where('w.chain', '=', chain)
        .where('w.address', '=', address)
        .executeTakeFirst()
      return row && toStore(row)
    },

    async paidLonger(storeId, chain, address) {
      const rows = await query
        .selectFrom('stores')
        .select('id')
        .where(`payout_${chain}`, '=', address)
        .orderBy((e) => e.fn.coalesce(`payout_${chain}_since_ms`, 'created_at_ms'))
        .orderBy('id')
        .execute()
      const ids = rows.map(({ id }) => id)
      const own = ids.indexOf(storeId)
      return own === -1 ? ids : ids.slice(0, own)
    },

    async payoutWallets(chain) {
      const column = `payout_${chain}` as const
      const rows = await query
        .selectFrom('stores')
        .select(`${column} as wallet`)
        .distinct()
        .where(column, 'is not', null)
        .execute()
      return rows.flatMap(({ wallet }) => wallet ?? [])
    },

    async walletsOf(storeId) {
      const rows = await query
        .selectFrom('store_wallets')
        .selectAll()
        .where('store_id', '=', storeId)
        .orderBy('chain')
        .orderBy('address')
        .execute()
      return rows.map((row) => ({
        storeId: row.store_id,
        chain: row.chain as StoreWallet['chain'],
        address: row.address,
      }))
    },

    async hasSold(storeId) {
      return (await anySaleOf(query, storeId).executeTakeFirst()) !== undefined
    },

    async redirectOf(username, nowMs) {
      const row = await query
        .selectFrom('username_redirects as r')
        .innerJoin('stores as s', 's.id', 'r.store_id')
        .select('s.username')
        .where('r.username', '=', username)
        .where('r.expires_at_ms', '>', nowMs)
        .executeTakeFirst()
      return row?.username
    },
  }
}

/** Another rename is due a day after the oldest of those that count. */
export async function renamesRefused(
  query: Kysely<Schema>,
  storeId: string,
  maxADay: number,
  nowMs: number,
): Promise<TollgateError> {
  const oldest = await query
    .selectFrom('renames')
    .select('at_ms')
    .where('store_id', '=', storeId)
    .orderBy('at_ms', 'desc')
    .limit(1)
    .offset(maxADay - 1)
    .executeTakeFirst()
  const dueAtMs = (oldest?.at_ms ?? nowMs) + dayMs
  return tooManyRenames(maxADay, dueAtMs, nowMs)
}
