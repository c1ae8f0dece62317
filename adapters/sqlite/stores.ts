import { type ExpressionBuilder, type Selectable, sql } from 'kysely'
import type { Store, StoreWallet } from '../../core/domain/store.ts'
import type { TollgateError } from '../../core/errors/error.ts'
import { tooManyRenames, usernameTaken, walletTaken } from '../../core/ports/refusals.ts'
import type { StorePatch, Stores } from '../../core/ports/stores.ts'
import { toApiKeyColumns } from './apiKeys.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'
import { ConstraintError } from './failure.ts'
import { REDIRECT_MS } from './links.ts'
import type { Schema, StoreTable } from './schema.ts'

const dayMs = 24 * 60 * 60 * 1000

/** Stores in SQLite. A former username belongs to its store as long as it redirects: nobody else may take it. */
export function createStores({ query, writer }: Database): Stores {
  return {
    async create(store, wallet, key) {
      const { id, createdBy, createdAtMs, updatedAtMs } = store
      const columns = {
        ...toStoreColumns(store),
        id,
        created_by: createdBy,
        created_at_ms: createdAtMs,
        updated_at_ms: updatedAtMs,
      } as Omit<Selectable<StoreTable>, 'payout_changed_at_ms' | `payout_${string}_since_ms` | 'socials'>
      const steps = [compiled(query.insertInto('stores').values(columns))]
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
        // Of sixty names in a month, fifty-nine are not kept from everybody else.
        query
          .deleteFrom('username_redirects')
          .where('store_id', '=', id)
          .where((e) => e.exists(renamed(username).select('id'))),
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

function toStoreColumns(patch: StorePatch): Partial<Selectable<StoreTable>> {
  const columns = {
    username: patch.username,
    display_name: patch.displayName,
    bio: patch.bio,
    avatar_url: patch.avatarUrl,
    socials: patch.socials && JSON.stringify(patch.socials),
    developer_mode_enabled:
      patch.developerModeEnabled === undefined ? undefined : Number(patch.developerModeEnabled),
    payout_base: patch.payout?.base,
    payout_solana: patch.payout?.solana,
  }
  return Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined))
}

const toStore = (row: Selectable<StoreTable>): Store => ({
  id: row.id,
  username: row.username,
  displayName: row.display_name,
  bio: row.bio,
  avatarUrl: row.avatar_url,
  socials: JSON.parse(row.socials) as Store['socials'],
  developerModeEnabled: row.developer_mode_enabled === 1,
  createdBy: row.created_by as Store['createdBy'],
  payout: { base: row.payout_base, solana: row.payout_solana },
  payoutChangedAtMs: row.payout_changed_at_ms,
  createdAtMs: row.created_at_ms,
  updatedAtMs: row.updated_at_ms,
})

/** Another rename is due a day after the oldest of those that count. */
async function renamesRefused(
  query: Database['query'],
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

const taken = (username: string | undefined) => (error: unknown) => {
  if (error instanceof ConstraintError && error.message.includes('stores.username'))
    throw usernameTaken(username, { cause: error })
  if (error instanceof ConstraintError && error.message.includes('store_wallets'))
    throw walletTaken({ cause: error })
  throw error
}
