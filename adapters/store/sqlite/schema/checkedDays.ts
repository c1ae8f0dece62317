const columns = `
  first_id INTEGER NOT NULL, -- the payments after this one …
  last_id INTEGER NOT NULL, -- … up to this one
  rules INTEGER NOT NULL, -- the version of the check's rules
  run TEXT NOT NULL,
  is_right INTEGER NOT NULL DEFAULT 0,
  purchases INTEGER NOT NULL DEFAULT 0,
  charged INTEGER NOT NULL DEFAULT 0,
  refund_due INTEGER NOT NULL DEFAULT 0`

const dayOfPayment = (id: string) =>
  `DELETE FROM ledger_checked_days WHERE first_id < ${id} AND last_id >= ${id};`
const dayOf = (ms: string) => `DELETE FROM ledger_checked_days WHERE day = ${ms} / 86400000;`
const dayOfRefund = (id: string) =>
  `DELETE FROM ledger_checked_days WHERE day = (SELECT refunded_at_ms / 86400000 FROM refunds WHERE payment_id = ${id});`
const dayOfPurchase = (id: string) =>
  `DELETE FROM ledger_checked_days WHERE EXISTS (
    SELECT 1 FROM purchases u WHERE u.id = ${id} AND u.payment_id > first_id AND u.payment_id <= last_id);`
const monthOf = (ms: string) =>
  `DELETE FROM ledger_checked_months WHERE month = strftime('%Y-%m', ${ms} / 1000, 'unixepoch');`

const ofSum = (row: string) =>
  `DELETE FROM ledger_checked_days WHERE day = iif(${row}.unit = 'day', ${row}.at, ${row}.at / 24);`
const ofFees = (row: string) => `DELETE FROM ledger_checked_months WHERE month = ${row}.month;`
const ofOwnSale = (row: string) => dayOfPayment(`${row}.payment_id`) + dayOfRefund(`${row}.payment_id`)
// A refund is in the rollups of the day on which it was made. Its sale may be of another day.
const ofRefund = (row: string) =>
  dayOfPayment(`${row}.payment_id`) + monthOf(`${row}.refunded_at_ms`) + dayOf(`${row}.refunded_at_ms`)
const ofPurchase = (row: string) =>
  dayOfPayment(`${row}.payment_id`) + monthOf(`${row}.created_at_ms`) + dayOfRefund(`${row}.payment_id`)

const trigger = (name: string, event: string, body: string) =>
  `CREATE TRIGGER ${name} AFTER ${event} BEGIN ${body} END`
const rows = {
  inserted: ['INSERT', ['NEW']],
  changed: ['UPDATE', ['OLD', 'NEW']],
  deleted: ['DELETE', ['OLD']],
} as const
/** Creates a trigger for each event of a table's rows. */
const triggers = (table: string, body: (row: string) => string) =>
  Object.entries(rows).map(([name, [event, which]]) =>
    trigger(`${table}_doubted_${name}`, `${event} ON ${table}`, which.map(body).join(' ')),
  )

/** Days and months that the ledger check found right. A change to one of their rows, by any program, deletes the note. */
export const checkedDays = [
  `CREATE TABLE ledger_checked_days (day INTEGER PRIMARY KEY, ${columns}) STRICT`,
  `CREATE TABLE ledger_checked_months (month TEXT PRIMARY KEY NOT NULL, ${columns}) STRICT`,
  ...triggers('sales_rollups', ofSum),
  ...triggers('fee_rollups', ofFees),
  ...triggers('own_sales', ofOwnSale),
  ...triggers('refunds', ofRefund),
  // A new sale and its delivery belong to a day that is not checked yet, so no trigger slows them down. purchases_status_summed
  // handles changes of a status. The event changes only with the status, and no check reads it.
  trigger(
    'purchases_doubted_changed',
    `UPDATE OF payment_id, id, link_id, session_id, store_id, buyer_wallet, network, asset, symbol, decimals, amount_atomic,
      fee_atomic, price_usd, tx_hash, created_at_ms ON purchases`,
    ofPurchase('OLD') + ofPurchase('NEW'),
  ),
  trigger('purchases_doubted_deleted', 'DELETE ON purchases', ofPurchase('OLD')),
  trigger(
    'payments_doubted_changed',
    `UPDATE OF id, state ON payments
      WHEN OLD.state <> 'claimed' AND OLD.state <> 'settling' AND OLD.state <> 'settled' AND OLD.state <> 'pending'`,
    dayOfPayment('OLD.id'),
  ),
  trigger('payments_doubted_deleted', 'DELETE ON payments', dayOfPayment('OLD.id')),
  trigger('ledger_doubted_inserted', 'INSERT ON ledger WHEN NEW.move > 0', dayOfPurchase('NEW.purchase_id')),
  trigger('ledger_doubted_changed', 'UPDATE ON ledger', dayOfPurchase('OLD.purchase_id')),
  trigger('ledger_doubted_deleted', 'DELETE ON ledger', dayOfPurchase('OLD.purchase_id')),
]
