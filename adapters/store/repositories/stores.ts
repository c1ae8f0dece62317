import type { ChainName } from '../../../core/domain/network.ts'
import type { ApiKey, Store, StoreWallet } from '../../../core/domain/store.ts'
import { tooManyRenames, usernameTaken, walletTaken } from '../../../core/ports/refusals.ts'
import { DAY_MS } from '../../../core/ports/store/stats.ts'
import type { StorePatch, Stores, StoreUpdateRules } from '../../../core/ports/store/stores.ts'
import type { StoreTable } from '../sql/schema.ts'
import { insertApiKey } from './apiKeys.ts'
import { hideImage } from './images.ts'
import { REDIRECT_MS } from './links/links.ts'
import {
  assignments,
  type CallsOf,
  lockedWithKeys,
  noteStoreChange,
  numbers,
  Piece,
  type Reads,
  row,
  type Steps,
  type Tx,
  type Value,
  words,
} from './transaction.ts'

type NewStore = Parameters<Stores['create']>[0]

export const storeWrites = {
  *create(tx: Tx, store: NewStore, wallet: StoreWallet | null, key: ApiKey | null): Steps<void> {
    const { id, username, createdBy, createdAtMs, updatedAtMs } = store
    yield* holdUsernames(tx, username)
    if (yield* isReserved(tx, username, id, updatedAtMs)) throw usernameTaken(username)
    const columns = {
      id,
      ...storeColumns(store),
      created_by: createdBy,
      created_at_ms: createdAtMs,
      updated_at_ms: updatedAtMs,
    }
    yield* tx.run`INSERT INTO stores ${row(columns)}`
    if (wallet !== null) {
      const { chain, address } = wallet
      const added = yield* tx.run`
        INSERT INTO store_wallets ${row({ chain, address, store_id: id })} ON CONFLICT DO NOTHING`
      if (added === 0) throw walletTaken()
    }
    if (key !== null) yield* insertApiKey(tx, key)
    yield* noteStoreChange(tx, username)
  },

  *update(
    tx: Tx,
    id: string,
    patch: StorePatch,
    updatedAtMs: number,
    { maxRenamesADay, payoutWas = {} }: StoreUpdateRules = {},
  ): Steps<Store | undefined> {
    const found = yield* tx.one<StoreTable>`SELECT * FROM stores WHERE id = ${id} ${lockedWithKeys}`
    if (found === undefined || !isPaidThere(found, payoutWas)) return undefined
    const { username, avatarUrl } = patch
    const former =
      username === undefined || username === found.username
        ? []
        : yield* rename(tx, { id, from: found.username, to: username, maxRenamesADay, atMs: updatedAtMs })
    if (patch.payout !== undefined) yield* decideOwnSales(tx, id)
    if (avatarUrl !== undefined && avatarUrl !== found.avatar_url) yield* hideImage(tx, id, avatarUrl)
    // Writes every column, because the database would keep a prepared statement for each choice of columns.
    const { id: _, ...columns } = {
      ...found,
      ...storeColumns(patch),
      ...payoutTimes(found, patch.payout, updatedAtMs),
      updated_at_ms: updatedAtMs,
    }
    const updated =
      yield* tx.one<StoreTable>`UPDATE stores SET ${assignments(columns)} WHERE id = ${id} RETURNING *`
    yield* noteStoreChange(tx, updated!.username, ...former)
    return toStore(updated!)
  },
}

const isPaidThere = (found: StoreTable, was: NonNullable<StoreUpdateRules['payoutWas']>): boolean =>
  (was.base === undefined || was.base === found.payout_base) &&
  (was.solana === undefined || was.solana === found.payout_solana)

/** Since when the store has used its payout wallets. An unchanged wallet keeps its time. */
function payoutTimes(found: StoreTable, payout: StorePatch['payout'], atMs: number) {
  if (payout === undefined) return {}
  const { base = found.payout_base, solana = found.payout_solana } = payout
  return {
    payout_changed_at_ms: atMs,
    payout_base_since_ms: base === found.payout_base ? found.payout_base_since_ms : atMs,
    payout_solana_since_ms: solana === found.payout_solana ? found.payout_solana_since_ms : atMs,
  }
}

const columnOf = {
  base: words('payout_base', 'payout_base'),
  solana: words('payout_solana', 'payout_solana'),
}
const sinceOf = {
  base: words('payout_base_since_ms', 'payout_base_since_ms'),
  solana: words('payout_solana_since_ms', 'payout_solana_since_ms'),
}

/** Sellers' stores. A former username belongs to its store while it redirects, so no other store may take it. */
export function createStores(
  { stores }: { readonly stores: CallsOf<typeof storeWrites> },
  reads: Reads,
): Stores {
  return {
    ...stores,

    async find(id) {
      const found = await reads.one<StoreTable>`SELECT * FROM stores WHERE id = ${id}`
      return found && toStore(found)
    },

    async byUsername(username) {
      const found = await reads.one<StoreTable>`SELECT * FROM stores WHERE username = ${username}`
      return found && toStore(found)
    },

    async byWallet(chain, address) {
      const found =
        await reads.one<StoreTable>`SELECT s.* FROM store_wallets w JOIN stores s ON s.id = w.store_id
        WHERE w.chain = ${chain} AND w.address = ${address}`
      return found && toStore(found)
    },

    async paidLonger(storeId, chain, address) {
      const rows = await reads.all<{ id: string }>`SELECT id FROM stores WHERE ${columnOf[chain]} = ${address}
        ORDER BY coalesce(${sinceOf[chain]}, created_at_ms), id`
      const ids = rows.map(({ id }) => id)
      const own = ids.indexOf(storeId)
      return own === -1 ? ids : ids.slice(0, own)
    },

    async payoutWallets(chain) {
      const rows = await reads.all<{ wallet: string }>`
        SELECT DISTINCT ${columnOf[chain]} AS wallet FROM stores WHERE ${columnOf[chain]} IS NOT NULL`
      return rows.map(({ wallet }) => wallet)
    },

    async walletsOf(storeId) {
      const rows = await reads.all<{ chain: ChainName; address: string }>`
        SELECT chain, address FROM store_wallets WHERE store_id = ${storeId} ORDER BY chain, address`
      return rows.map(({ chain, address }) => ({ storeId, chain, address }))
    },

    async hasSold(storeId) {
      return (await reads.one`${anySaleOf(storeId)}`) !== undefined
    },

    async redirectOf(username, nowMs) {
      const found = await reads.one<{ username: string }>`
        SELECT s.username FROM username_redirects r JOIN stores s ON s.id = r.store_id
        WHERE r.username = ${username} AND r.expires_at_ms > ${nowMs}`
      return found?.username
    },
  }
}

/** A store's columns for the given fields. */
function storeColumns(patch: StorePatch): Record<string, Value> {
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
  const given = Object.entries(columns).filter(([, value]) => value !== undefined)
  return Object.fromEntries(given as [string, Value][])
}

const toStore = (row: StoreTable): Store => ({
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

/** Finds any sale of a store, or any payment to it in flight. */
export function anySaleOf(storeId: string): Piece {
  // The statement repeats the condition of the index payments_open, so that the database uses it for any number of sales.
  const text = (parameter: () => string) => `SELECT store_id FROM purchases WHERE store_id = ${parameter()}
    UNION ALL SELECT store_id FROM payments WHERE store_id = ${parameter()}
      AND (state <> 'delivered' OR due_at_ms IS NOT NULL) AND state IN ('claimed', 'settling', 'pending')
    LIMIT 1`
  return new Piece('anySaleOf', { sqlite: text, postgres: text }, [storeId, storeId])
}

interface Rename {
  readonly id: string
  readonly from: string
  readonly to: string
  readonly maxRenamesADay: number | undefined
  readonly atMs: number
}

/** Locks the usernames until the transaction ends, so that no other transaction takes or frees them. */
const holdUsernames = (tx: Tx, ...usernames: string[]): Steps<void> =>
  tx.hold(...usernames.map((username) => `username:${username}`))

/** Whether a username belongs to another store, or belonged to one and still redirects. Locks the username. */
function* isReserved(tx: Tx, username: string, storeId: string, nowMs: number): Steps<boolean> {
  const owner = yield* tx.one`
    SELECT id FROM stores WHERE username = ${username} AND id <> ${storeId}
    UNION ALL SELECT store_id FROM username_redirects
      WHERE username = ${username} AND store_id <> ${storeId} AND expires_at_ms > ${nowMs}
    LIMIT 1`
  return owner !== undefined
}

/**
 * Writes the redirect of a renamed store. The caller has locked the store's row.
 * @returns usernames that no longer redirect
 */
function* rename(tx: Tx, { id, from, to, maxRenamesADay, atMs }: Rename): Steps<string[]> {
  if (maxRenamesADay !== undefined) {
    // The next rename is possible a day after the oldest rename that counts.
    const oldest = yield* tx.one<{ at_ms: number }>`
      SELECT at_ms FROM renames WHERE store_id = ${id} AND at_ms > ${atMs - DAY_MS}
      ORDER BY at_ms DESC LIMIT 1 OFFSET ${maxRenamesADay - 1}`
    if (oldest !== undefined) throw tooManyRenames(maxRenamesADay, oldest.at_ms + DAY_MS, atMs)
  }
  yield* holdUsernames(tx, from, to)
  if (yield* isReserved(tx, to, id, atMs)) throw usernameTaken(to)
  yield* tx.run`DELETE FROM renames WHERE store_id = ${id} AND at_ms <= ${atMs - DAY_MS}`
  yield* tx.run`INSERT INTO renames ${row({ store_id: id, at_ms: atMs })}`
  // A store without sales has only one former name. Otherwise a store that is renamed sixty times a month would block sixty names.
  const sale = yield* tx.one`${anySaleOf(id)}`
  const keepsNames = Number(sale !== undefined)
  const gone = yield* tx.all<{ username: string }>`
    DELETE FROM username_redirects WHERE username = ${to}
      OR (store_id = ${id} AND (expires_at_ms <= ${atMs} OR ${keepsNames} = 0)) RETURNING username`
  yield* tx.run`
    INSERT INTO username_redirects ${row({ username: from, store_id: id, expires_at_ms: atMs + REDIRECT_MS })}
    ON CONFLICT (username) DO UPDATE SET store_id = excluded.store_id, expires_at_ms = excluded.expires_at_ms`
  return [from, ...gone.map(({ username }) => username)]
}

interface Note {
  readonly payment_id: number
  readonly was: string | null
  readonly became: string | null
}

/**
 * Decides which sales that are not in the rollups yet went to the store's own wallets. These are the wallets that sign in to the
 * store and those that the store is paid to. Runs before the store's wallets change.
 */
export function* decideOwnSales(tx: Tx, storeId: string): Steps<void> {
  const decided = yield* tx.all<Note>`
    UPDATE rollups_due SET is_decided = 1 WHERE is_decided = 0
      AND EXISTS (SELECT 1 FROM purchases u WHERE u.payment_id = rollups_due.payment_id AND u.store_id = ${storeId})
    RETURNING payment_id, was, became`
  const sold = decided.filter(({ was, became }) => was === null && became !== null)
  if (sold.length === 0) return
  yield* tx.run`
    INSERT INTO own_sales (payment_id)
    SELECT b.payment_id FROM (
      SELECT u.payment_id, CASE WHEN u.network LIKE 'eip155:%' THEN lower(u.buyer_wallet) ELSE u.buyer_wallet END AS wallet
      FROM purchases u WHERE u.payment_id IN ${numbers(sold.map((one) => one.payment_id))}) AS b
    WHERE EXISTS (SELECT 1 FROM store_wallets w WHERE w.store_id = ${storeId} AND w.address = b.wallet)
      OR EXISTS (SELECT 1 FROM stores s WHERE s.id = ${storeId} AND b.wallet IN (lower(s.payout_base), s.payout_solana))
    ON CONFLICT DO NOTHING`
}
