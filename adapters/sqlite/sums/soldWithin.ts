import type { DatabaseSync } from 'node:sqlite'
import type { Row } from '../statement.ts'

/** What the sums have of a purchase: what it was before the first note that waits. */
const sales = (from: string) => `
  SELECT u.*, r.refunded_at_ms, o.payment_id AS own, NULL AS was,
    CASE WHEN d.id IS NULL THEN u.status ELSE d.was END AS became,
    r.payment_id IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM sums_due w WHERE w.payment_id = u.payment_id AND w.became IS NULL) AS is_back
  FROM ${from} LEFT JOIN own_sales o ON o.payment_id = u.payment_id
    LEFT JOIN (SELECT payment_id, min(id) AS id, was FROM sums_due WHERE became IS NOT NULL GROUP BY payment_id) d
      ON d.payment_id = u.payment_id
  WHERE u.store_id = ?1`
const soldIn = `${sales('purchases u LEFT JOIN refunds r ON r.payment_id = u.payment_id')}
  AND u.created_at_ms >= ?2 AND u.created_at_ms < ?3`
const paidBackIn =
  sales(`(SELECT * FROM refunds INDEXED BY refunds_time WHERE refunded_at_ms >= ?2 AND refunded_at_ms < ?3) r
  CROSS JOIN purchases u ON u.payment_id = r.payment_id`)
const dueIn = `SELECT DISTINCT u.store_id FROM sums_due d CROSS JOIN purchases u ON u.payment_id = d.payment_id
    LEFT JOIN refunds r ON r.payment_id = d.payment_id
  WHERE u.created_at_ms >= ?1 AND u.created_at_ms < ?2 OR r.refunded_at_ms >= ?1 AND r.refunded_at_ms < ?2`

/** What one store sold and paid back within a time, as far as the sums have to have it: notes that wait are not in them. */
export function soldWithin(database: DatabaseSync) {
  const [sold, paidBack, due] = [soldIn, paidBackIn, dueIn].map((sql) => database.prepare(sql))
  return {
    sold: (storeId: string, fromMs: number, toMs: number): Iterable<Row> =>
      sold!.iterate(storeId, fromMs, toMs),
    paidBack: (storeId: string, fromMs: number, toMs: number): Iterable<Row> =>
      paidBack!.iterate(storeId, fromMs, toMs),
    /** Stores with a note that waits. */
    due: (fromMs: number, toMs: number): string[] =>
      due!.all(fromMs, toMs).map((row) => String(row['store_id'])),
  }
}
