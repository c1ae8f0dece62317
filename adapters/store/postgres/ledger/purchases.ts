import { sql } from 'kysely'
import { feesAccountOf, toEntries } from '../../../../core/domain/ledger.ts'
import type { Fees } from '../../../../core/ports/store/fees.ts'
import type { Purchases } from '../../../../core/ports/store/purchases.ts'
import type { Row } from '../../sql/rows.ts'
import { feeMonthsOf } from '../../sql/sales/feeRows.ts'
import {
  pageOf,
  purchaseQueries,
  toLostRefund,
  toPurchase,
  toRefund,
} from '../../sql/sales/purchaseQueries.ts'
import type { Database } from '../database.ts'
import { queryRows } from '../query.ts'
import { sumUp } from '../rollups.ts'
import { checkLedger } from './ledgerCheck.ts'

// Repeats the expression of the index purchases_transfer, so that PostgreSQL uses it.
const transactionOf = `(CASE WHEN network LIKE 'eip155:%' THEN lower(tx_hash) ELSE tx_hash END)`
const soldIn = `SELECT DISTINCT ${transactionOf} AS tx FROM purchases WHERE network = $1 AND ${transactionOf} = ANY ($2::text[])`

/** Reads purchases in PostgreSQL. */
export function createPurchases({ pool, query, clock }: Database): Purchases {
  const queries = purchaseQueries(query)

  return {
    async find(id) {
      const row = await queries.one(id).executeTakeFirst()
      return row && toPurchase(row)
    },

    page: async (storeId, options) => pageOf(await queries.page(storeId, options).execute(), options.limit),

    isOwedBack: async (back) => (await queries.owedBack(back).executeTakeFirst()) !== undefined,

    hasSold: async (storeId, back, sinceMs) =>
      (await queries.sold(storeId, back, sinceMs).executeTakeFirst()) !== undefined,

    async soldIn(network, transactions) {
      const rows = await queryRows(pool, soldIn, [network, transactions])
      return new Set(rows.map(({ tx }) => String(tx)))
    },

    givingAccess: async (...asked) => (await queries.givingAccess(...asked).executeTakeFirst())?.id,

    async refundOf(purchaseId) {
      const row = await queries.refund(purchaseId).executeTakeFirst()
      return row && toRefund(purchaseId, row)
    },

    async lostRefundsOf(purchaseId) {
      const rows = await queries.lostRefunds(purchaseId).execute()
      return rows.map((row) => toLostRefund(purchaseId, row))
    },

    async ledger(purchaseId) {
      const moves = await queries.moves(purchaseId).execute()
      return moves.flatMap(({ entries }) => toEntries(purchaseId, entries))
    },

    ledgerCheck: (ears) => checkLedger(pool, clock.now(), ears),
  }
}

/** The fees that stores owe, in PostgreSQL. The rollups add up the owed fees. The paid fees come from the store's fee account. */
export function createFees(database: Database): Fees {
  return {
    async months(storeId) {
      await sumUp(database)
      const { rows } = await sql<Row>`
        SELECT * FROM fee_rollups WHERE store_id = ${storeId} OR store_id = ${feesAccountOf(storeId)}`.execute(
        database.query,
      )
      const claims = await sql<Row>`SELECT * FROM channel_fees WHERE store_id = ${storeId}`.execute(
        database.query,
      )
      return feeMonthsOf(storeId, rows, claims.rows)
    },
  }
}
