import { type Kysely, sql, type Transaction } from 'kysely'
import { parseAmount } from '../../../core/domain/money.ts'
import type { Row } from '../sql/rows.ts'
import { changedCounts } from '../sql/sales/buyerCounts.ts'
import { addFees, addStats, type FeeSum, type SalesSum, walletOf } from '../sql/sales/saleRollups.ts'
import type { Schema } from '../sql/schema.ts'
import type { Database } from './database.ts'
import { holdName, transact } from './transact.ts'

/** Maximum number of notes that a transaction adds to the rollups. */
const SUMMED_AT_ONCE = 1_000

/**
 * Adds the notes of sales to the rollups, in steps. Stats and fees are read from the rollups. Only one process adds at a time. The
 * next caller may have to add notes that arrive meanwhile.
 *
 * @returns how many notes it added
 */
export async function sumUp(database: Pick<Database, 'query'>): Promise<number> {
  const { rows } = await sql<{ count: number }>`SELECT count(*) AS count FROM rollups_due`.execute(
    database.query,
  )
  let left = rows[0]!.count
  let summed = 0
  while (left > 0) {
    const done = await transact(database, addSome, 'visible')
    summed += done
    left -= SUMMED_AT_ONCE
    if (done < SUMMED_AT_ONCE) break
  }
  return summed
}

async function addSome(trx: Transaction<Schema>): Promise<number> {
  await holdName(trx, 'sums')
  // The statement deletes exactly the rows that it read. Ids are given out before their rows are visible, so deleting a range of
  // ids could lose some notes.
  const { rows: notes } = await sql<Row>`
    WITH due AS (
      DELETE FROM rollups_due WHERE id IN (SELECT id FROM rollups_due ORDER BY id LIMIT ${SUMMED_AT_ONCE}) RETURNING *)
    SELECT d.id AS due, d.payment_id AS of_payment, d.was, d.became, d.refunded_at_ms, u.*,
      (o.payment_id IS NOT NULL)::int AS was_own,
      (d.was IS NULL AND d.became IS NOT NULL AND d.is_decided = 0
        AND is_own_wallet(u.store_id, wallet_of(u.network, u.buyer_wallet)))::int AS is_own
    FROM due d LEFT JOIN purchases u ON u.payment_id = d.payment_id
      LEFT JOIN own_sales o ON o.payment_id = d.payment_id
    ORDER BY d.id`.execute(trx)
  const sold = notes.filter((row) => row['id'] !== null)
  if (sold.length === 0) return notes.length

  const own = new Set(sold.filter((row) => row['is_own'] === 1).map((row) => Number(row['payment_id'])))
  if (own.size > 0)
    await sql`INSERT INTO own_sales SELECT unnest(${[...own]}::bigint[]) ON CONFLICT DO NOTHING`.execute(trx)
  const numbers = await buyersOf(trx, sold)
  const [stats, months] = [new Map<string, SalesSum>(), new Map<string, FeeSum>()]
  for (const row of sold) {
    const isOwn = row['was_own'] === 1 || own.has(Number(row['payment_id']))
    addStats(stats, row, isOwn ? undefined : () => numbers.get(walletOf(row))!)
    addFees(months, row)
  }
  await writeSales(trx, [...stats.values()])
  await writeFees(trx, [...months.values()])
  await noteLinks(trx, sold)
  return notes.length
}

/**
 * The number of each buyer. It is the row number of the wallet's first payment in the rollups, so no two wallets share a number.
 */
async function buyersOf(trx: Kysely<Schema>, sold: readonly Row[]): Promise<ReadonlyMap<string, number>> {
  const first = new Map<string, number>()
  for (const row of sold) {
    const wallet = walletOf(row)
    if (!first.has(wallet)) first.set(wallet, Number(row['payment_id']))
  }
  const [wallets, payments] = [[...first.keys()], [...first.values()]]
  await sql`INSERT INTO buyers (wallet, number) SELECT * FROM unnest(${wallets}::text[], ${payments}::bigint[])
    ON CONFLICT DO NOTHING`.execute(trx)
  const { rows } = await sql<{ wallet: string; number: number }>`
    SELECT wallet, number FROM buyers WHERE wallet = ANY (${wallets}::text[])`.execute(trx)
  return new Map(rows.map(({ wallet, number }) => [wallet, number]))
}

async function writeSales(trx: Kysely<Schema>, rollups: readonly SalesSum[]): Promise<void> {
  if (rollups.length === 0) return
  const keys = [
    rollups.map(({ unit }) => unit),
    rollups.map(({ at }) => at),
    rollups.map(({ scope }) => scope),
  ]
  const keyed = sql`unnest(${keys[0]}::text[], ${keys[1]}::bigint[], ${keys[2]}::text[]) AS k (unit, at, scope)`
  const found = await sql<Row>`
    SELECT s.* FROM ${keyed} JOIN sales_rollups s ON s.unit = k.unit AND s.at = k.at AND s.scope = k.scope`.execute(
    trx,
  )
  const name = (unit: unknown, at: unknown, scope: unknown) => `${unit} ${at} ${scope}`
  const present = new Map(found.rows.map((row) => [name(row['unit'], row['at'], row['scope']), row]))
  const written = rollups.map((sum) => {
    const was = present.get(name(sum.unit, sum.at, sum.scope))
    return {
      unit: sum.unit,
      at: sum.at,
      scope: sum.scope,
      calls: sum.calls + Number(was?.['calls'] ?? 0),
      revenue: `${sum.revenueE18 + BigInt(String(was?.['revenue_e18'] ?? 0))}`,
      refunds: sum.refunds + Number(was?.['refunds'] ?? 0),
      refunded: `${sum.refundedE18 + BigInt(String(was?.['refunded_e18'] ?? 0))}`,
      buyers: changedCounts((was?.['buyers'] ?? null) as Uint8Array | null, sum.buyers),
    }
  })
  const column = <Name extends keyof (typeof written)[number]>(of: Name) => written.map((row) => row[of])
  await sql`
    INSERT INTO sales_rollups (unit, at, scope, calls, revenue_e18, refunds, refunded_e18, buyers)
    SELECT * FROM unnest(${column('unit')}::text[], ${column('at')}::bigint[], ${column('scope')}::text[],
      ${column('calls')}::bigint[], ${column('revenue')}::text[], ${column('refunds')}::bigint[],
      ${column('refunded')}::text[], ${column('buyers').map((b) => (b === null ? null : Buffer.from(b)))}::bytea[])
    ON CONFLICT (unit, at, scope) DO UPDATE SET calls = excluded.calls, revenue_e18 = excluded.revenue_e18,
      refunds = excluded.refunds, refunded_e18 = excluded.refunded_e18, buyers = excluded.buyers`.execute(trx)
  await sql`
    DELETE FROM sales_rollups s USING ${keyed}
    WHERE s.unit = k.unit AND s.at = k.at AND s.scope = k.scope AND s.calls = 0 AND s.refunds = 0`.execute(
    trx,
  )
}

async function writeFees(trx: Kysely<Schema>, rollups: readonly FeeSum[]): Promise<void> {
  for (const sum of rollups) {
    const [store, month, network, unit, symbol, decimals] = sum.key
    // Amounts are whole numbers of any size, so SQL adds them as numeric and stores them as text.
    await sql`
      INSERT INTO fee_rollups AS f (store_id, month, network, unit, symbol, decimals, asset, sales, sold, fees, refunds, refunded,
        returned, standing)
      VALUES (${store}, ${month}, ${network}, ${unit}, ${symbol}, ${decimals}, ${sum.asset}, ${sum.sales}, ${`${sum.sold}`},
        ${`${sum.fees}`}, ${sum.refunds}, ${`${sum.refunded}`}, ${`${sum.returned}`}, ${`${sum.standing}`})
      ON CONFLICT (store_id, month, network, unit, symbol, decimals) DO UPDATE SET
        asset = greatest(f.asset, excluded.asset), sales = f.sales + excluded.sales, refunds = f.refunds + excluded.refunds,
        sold = (f.sold::numeric + excluded.sold::numeric)::text, fees = (f.fees::numeric + excluded.fees::numeric)::text,
        refunded = (f.refunded::numeric + excluded.refunded::numeric)::text,
        returned = (f.returned::numeric + excluded.returned::numeric)::text,
        standing = (f.standing::numeric + excluded.standing::numeric)::text`.execute(trx)
  }
  const stores = rollups.map(({ key }) => key[0])
  await sql`DELETE FROM fee_rollups WHERE store_id = ANY (${stores}::text[]) AND sales = 0 AND refunds = 0`.execute(
    trx,
  )
}

/** Marks links whose buyers discovery has to count again. */
async function noteLinks(trx: Kysely<Schema>, sold: readonly Row[]): Promise<void> {
  const links = [
    ...new Set(sold.filter((row) => row['became'] !== null).map((row) => String(row['link_id']))),
  ]
  await sql`
    INSERT INTO link_stats AS s (link_id, changed)
    SELECT link, 1 FROM unnest(${links.filter((link) => link !== '').sort()}::text[]) AS t (link)
    ON CONFLICT (link_id) DO UPDATE SET changed = s.changed + 1`.execute(trx)
}

/** Converts a sum of dollars, as PostgreSQL writes it, to units of 10^-18 dollars. */
export const toE18 = (decimal: unknown): bigint => parseAmount(String(decimal ?? '0'), 18)
