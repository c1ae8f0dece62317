import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/**
 * A refund is in the sums of the day on which it was made, and may be of a sale of another day: what changes either takes away the
 * notes of both. So does what says of a payment that it landed late. Never edited once released: a change is a new migration.
 */
export const doubtedRefunds: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const dayOfPayment = (id: string) => `DELETE FROM judged_days WHERE first_id < ${id} AND last_id >= ${id};`
const dayOf = (ms: string) => `DELETE FROM judged_days WHERE day = ${ms} / 86400000;`
const dayOfRefund = (id: string) =>
  `DELETE FROM judged_days WHERE day = (SELECT refunded_at_ms / 86400000 FROM refunds WHERE payment_id = ${id});`
const monthOf = (ms: string) =>
  `DELETE FROM judged_months WHERE month = strftime('%Y-%m', ${ms} / 1000, 'unixepoch');`

const rows = {
  inserted: ['INSERT', ['NEW']],
  changed: ['UPDATE', ['OLD', 'NEW']],
  deleted: ['DELETE', ['OLD']],
} as const
const again = (name: string, event: string, does: string) => [
  `DROP TRIGGER ${name}`,
  `CREATE TRIGGER ${name} AFTER ${event} BEGIN ${does} END`,
]
const triggers = (table: string, does: (row: string) => string) =>
  Object.entries(rows).flatMap(([name, [event, which]]) =>
    again(`${table}_doubted_${name}`, `${event} ON ${table}`, which.map(does).join(' ')),
  )
const ofPurchase = (row: string) =>
  dayOfPayment(`${row}.payment_id`) + monthOf(`${row}.created_at_ms`) + dayOfRefund(`${row}.payment_id`)

const statements = [
  ...triggers('own_sales', (row) => dayOfPayment(`${row}.payment_id`) + dayOfRefund(`${row}.payment_id`)),
  ...triggers(
    'refunds',
    (row) =>
      dayOfPayment(`${row}.payment_id`) + monthOf(`${row}.refunded_at_ms`) + dayOf(`${row}.refunded_at_ms`),
  ),
  ...again(
    'purchases_doubted_changed',
    `UPDATE OF payment_id, id, link_id, session_id, store_id, buyer_wallet, network, asset, symbol, decimals, amount_atomic,
      fee_atomic, price_usd, tx_hash, created_at_ms ON purchases`,
    ofPurchase('OLD') + ofPurchase('NEW'),
  ),
  ...again('purchases_doubted_deleted', 'DELETE ON purchases', ofPurchase('OLD')),
  ...again(
    'payments_doubted_changed',
    `UPDATE OF id, state, landed_late ON payments
      WHEN OLD.state <> 'claimed' AND OLD.state <> 'settling' AND OLD.state <> 'settled' AND OLD.state <> 'pending'`,
    dayOfPayment('OLD.id'),
  ),
]
