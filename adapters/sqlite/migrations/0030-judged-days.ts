import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/**
 * Days and months that the ledger check has found right. Whatever changes something of one of them takes its note away, by whichever
 * tool it is changed. Never edited once released: a change is a new migration.
 */
export const judgedDays: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const note = `
  first_id INTEGER NOT NULL,
  last_id INTEGER NOT NULL,
  rules INTEGER NOT NULL,
  run TEXT NOT NULL,
  is_right INTEGER NOT NULL DEFAULT 0,
  purchases INTEGER NOT NULL DEFAULT 0,
  charged INTEGER NOT NULL DEFAULT 0,
  refund_due INTEGER NOT NULL DEFAULT 0`

/** The day among whose payments this one is. */
const dayOfPayment = (id: string) => `DELETE FROM judged_days WHERE first_id < ${id} AND last_id >= ${id};`
const daysOfPurchase = (id: string) =>
  `DELETE FROM judged_days WHERE EXISTS (
    SELECT 1 FROM purchases u WHERE u.id = ${id} AND u.payment_id > first_id AND u.payment_id <= last_id);`
const monthOf = (ms: string) =>
  `DELETE FROM judged_months WHERE month = strftime('%Y-%m', ${ms} / 1000, 'unixepoch');`

const trigger = (name: string, event: string, does: string) =>
  `CREATE TRIGGER ${name} AFTER ${event} BEGIN ${does} END`
const rows = {
  inserted: ['INSERT', ['NEW']],
  changed: ['UPDATE', ['OLD', 'NEW']],
  deleted: ['DELETE', ['OLD']],
} as const
/** Triggers for whatever happens to a table's rows. */
const triggers = (table: string, does: (row: string) => string) =>
  Object.entries(rows).map(([name, [event, which]]) =>
    trigger(`${table}_doubted_${name}`, `${event} ON ${table}`, which.map(does).join(' ')),
  )
const ofPurchase = (row: string) => dayOfPayment(`${row}.payment_id`) + monthOf(`${row}.created_at_ms`)
const ofDay = (row: string) =>
  `DELETE FROM judged_days WHERE day = iif(${row}.unit = 'day', ${row}.at, ${row}.at / 24);`

const statements = [
  `CREATE TABLE judged_days (day INTEGER PRIMARY KEY, ${note}) STRICT`,
  `CREATE TABLE judged_months (month TEXT PRIMARY KEY NOT NULL, ${note}) STRICT`,
  ...triggers('sales_sums', ofDay),
  ...triggers('fee_sums', (row) => `DELETE FROM judged_months WHERE month = ${row}.month;`),
  ...triggers('own_sales', (row) => dayOfPayment(`${row}.payment_id`)),
  ...triggers('refunds', (row) => dayOfPayment(`${row}.payment_id`) + monthOf(`${row}.refunded_at_ms`)),
  // A sale that is made, and handed over, is of a day that is not judged yet: each of them would pay for the look. Its event goes
  // only with its status, and no check reads it: it is no column to listen for.
  trigger(
    'purchases_doubted_changed',
    `UPDATE OF payment_id, id, link_id, session_id, store_id, buyer_wallet, network, asset, symbol, decimals, amount_atomic,
      fee_atomic, price_usd, tx_hash, created_at_ms ON purchases`,
    ofPurchase('OLD') + ofPurchase('NEW'),
  ),
  trigger(
    'purchases_doubted_moved',
    `UPDATE OF status ON purchases WHEN NEW.status <> OLD.status AND NOT (OLD.status = 'settled' AND NEW.status = 'delivered')`,
    ofPurchase('NEW'),
  ),
  trigger('purchases_doubted_deleted', 'DELETE ON purchases', ofPurchase('OLD')),
  trigger(
    'payments_doubted_changed',
    `UPDATE OF id, state ON payments
      WHEN OLD.state <> 'claimed' AND OLD.state <> 'settling' AND OLD.state <> 'settled' AND OLD.state <> 'pending'`,
    dayOfPayment('OLD.id'),
  ),
  trigger('payments_doubted_deleted', 'DELETE ON payments', dayOfPayment('OLD.id')),
  trigger('ledger_doubted_inserted', 'INSERT ON ledger WHEN NEW.move > 0', daysOfPurchase('NEW.purchase_id')),
  trigger('ledger_doubted_changed', 'UPDATE ON ledger', daysOfPurchase('OLD.purchase_id')),
  trigger('ledger_doubted_deleted', 'DELETE ON ledger', daysOfPurchase('OLD.purchase_id')),
]
