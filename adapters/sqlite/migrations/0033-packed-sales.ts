import type { DatabaseSync } from 'node:sqlite'
import type { Migration } from 'kysely/migration'
import { type Packed, packed } from '../../sql/packed.ts'

/** What a migration that takes minutes is given. */
export interface Copying {
  readonly database: DatabaseSync
  /** Hears of rows that are copied, and how many there are of them. */
  onProgress(table: string, done: number, all: number): void
}

const ROWS_AT_ONCE = 20_000

/**
 * Payments and purchases take two thirds of the room: hashes and nonces are bytes, indexes by store and link end with the row's
 * number in the place of the purchase's id. Links are noted for discovery when their sales are added up, not at each sale. Never
 * edited once released: a change is a new migration.
 *
 * Runs without foreign keys: tables that others refer to are made anew under their names.
 */
export const packedSales = ({ database, onProgress }: Copying): Migration => ({
  async up() {
    for (const [name, pack] of Object.entries({ packed_hex: packed.hex, packed_call: packed.call }))
      database.function(name, { deterministic: true }, (text) => text && pack(text as Packed as string))
    const triggers = partsOf(database, `type = 'trigger'`)
    for (const { name } of triggers) database.exec(`DROP TRIGGER ${name}`)
    for (const [table, { columns, from }] of Object.entries(tables)) {
      const parts = partsOf(database, `type = 'index' AND sql IS NOT NULL AND tbl_name = '${table}'`)
      database.exec(`CREATE TABLE ${table}_of_0033 (${columns.join(', ')}) STRICT`)
      copy(database, table, from, (done, all) => onProgress(table, done, all))
      database.exec(`DROP TABLE ${table}`)
      database.exec(`ALTER TABLE ${table}_of_0033 RENAME TO ${table}`)
      for (const { name, sql } of parts) database.exec(others[name] ?? sql)
    }
    for (const { name, sql } of triggers) database.exec(others[name] ?? sql)
  },
})

const partsOf = (database: DatabaseSync, which: string) =>
  database
    .prepare(`SELECT name, sql FROM sqlite_master WHERE ${which}`)
    .all()
    .map(({ name, sql }) => ({ name: String(name), sql: String(sql) }))

/** By the row's number, which is `first` of the new columns. */
function copy(
  database: DatabaseSync,
  table: string,
  from: readonly string[],
  onProgress: (done: number, all: number) => void,
): void {
  const [first] = from
  const all = Number(database.prepare(`SELECT count(*) AS n FROM ${table}`).get()!['n'])
  const piece = database.prepare(`SELECT max(n) AS last, count(*) AS count
    FROM (SELECT ${first} AS n FROM ${table} WHERE ${first} > ? ORDER BY ${first} LIMIT ${ROWS_AT_ONCE})`)
  const some = database.prepare(`INSERT INTO ${table}_of_0033 SELECT ${from.join(', ')} FROM ${table}
    WHERE ${first} > ? AND ${first} <= ? ORDER BY ${first}`)
  let [after, done] = [Number.MIN_SAFE_INTEGER, 0]
  while (done < all) {
    const { last, count } = piece.get(after)!
    some.run(after, last!)
    after = Number(last)
    done += Number(count)
    onProgress(done, all)
  }
}

const states = [
  ...['settling', 'settled', 'delivered', 'claimed', 'rejected', 'pending', 'failed_final'],
  ...['refund_due', 'refunded', 'reorged'],
]
const open = `state = 'claimed' OR state = 'settling' OR state = 'pending' OR state = 'settled'`
const sold = ['settled', 'delivered', 'refund_due', 'refunded', 'reorged']
const isOneOf = (column: string, values: readonly string[]) =>
  values.map((value) => `${column} = '${value}'`).join(' OR ')

const names = (columns: readonly string[]) => columns.map((column) => column.split(' ')[0]!)
const tableOf = (columns: readonly string[], packedFrom: Readonly<Record<string, string>>) => ({
  columns,
  from: names(columns).map((name) => packedFrom[name] ?? name),
})

// ANY: bytes, or a text of another form.
const tables = {
  payments: tableOf(
    [
      'id INTEGER PRIMARY KEY',
      'key BLOB NOT NULL UNIQUE CHECK (length(key) = 32)',
      'network TEXT NOT NULL',
      'asset TEXT NOT NULL',
      'payer ANY NOT NULL',
      'nonce ANY NOT NULL',
      'pay_to ANY NOT NULL',
      `amount_atomic TEXT NOT NULL CHECK (amount_atomic NOT GLOB '*[^0-9]*' AND amount_atomic <> '')`,
      'valid_before_ms INTEGER NOT NULL',
      'scheme TEXT NOT NULL',
      'link_id TEXT NOT NULL',
      'store_id TEXT NOT NULL',
      'request_hash ANY NOT NULL',
      'purchase_id TEXT NOT NULL',
      'claimed_at_ms INTEGER NOT NULL',
      `state TEXT NOT NULL CHECK (${isOneOf('state', states)})`,
      `lease INTEGER CHECK (lease IS NULL OR ${open})`,
      'due_at_ms INTEGER',
      'tries INTEGER NOT NULL DEFAULT 0',
      'due_reason TEXT',
      'tx_hash ANY',
      'event TEXT',
      'block INTEGER',
      'charged_atomic TEXT',
      'error_reason TEXT',
      'landed_late INTEGER NOT NULL DEFAULT 0',
      'updated_at_ms INTEGER NOT NULL',
      'session_id TEXT',
    ],
    {
      payer: 'packed_hex(payer)',
      nonce: 'packed_hex(nonce)',
      pay_to: 'packed_hex(pay_to)',
      request_hash: 'packed_call(request_hash)',
      tx_hash: 'packed_hex(tx_hash)',
      due_reason: 'CASE WHEN due_at_ms IS NOT NULL OR tries > 0 THEN due_reason END',
    },
  ),
  purchases: tableOf(
    [
      'payment_id INTEGER PRIMARY KEY REFERENCES payments (id)',
      'id TEXT NOT NULL UNIQUE',
      'link_id TEXT NOT NULL',
      'store_id TEXT NOT NULL',
      'buyer_wallet TEXT NOT NULL',
      'network TEXT NOT NULL',
      'asset TEXT NOT NULL',
      'symbol TEXT NOT NULL',
      'decimals INTEGER NOT NULL',
      'amount_atomic TEXT NOT NULL',
      'fee_atomic TEXT NOT NULL',
      'price_usd TEXT NOT NULL',
      'tx_hash ANY',
      'event TEXT',
      `status TEXT NOT NULL CHECK (${isOneOf('status', sold)})`,
      'review_token_hash ANY NOT NULL',
      'created_at_ms INTEGER NOT NULL',
      'session_id TEXT',
    ],
    { tx_hash: 'packed_hex(tx_hash)', review_token_hash: 'packed_call(review_token_hash)' },
  ),
}

/** Indexes and triggers that are others now; what is empty is no more. */
const others: Readonly<Record<string, string>> = {
  // An EVM hash is the same in either case; a Solana signature is base58, where case counts.
  purchases_transfer: `CREATE UNIQUE INDEX purchases_transfer ON purchases (network,
    CASE WHEN typeof(tx_hash) = 'blob' OR network NOT LIKE 'eip155:%' THEN tx_hash
      WHEN tx_hash LIKE '0x%' AND length(tx_hash) = 66 THEN coalesce(unhex(substr(tx_hash, 3)), lower(tx_hash))
      ELSE lower(tx_hash) END, event)`,
  purchases_store: 'CREATE INDEX purchases_store ON purchases (store_id, created_at_ms)',
  purchases_link: 'CREATE INDEX purchases_link ON purchases (link_id, created_at_ms)',
  purchases_noted: '',
  purchases_noted_anew: '',
  // Handing a sale over runs each trigger of its status: what asks for the same is one.
  purchases_summed_anew: `CREATE TRIGGER purchases_summed_anew AFTER UPDATE OF status ON purchases
    WHEN NEW.status <> OLD.status AND NOT (OLD.status = 'settled' AND NEW.status = 'delivered') BEGIN
    INSERT INTO sums_due (payment_id, was, became) VALUES (NEW.payment_id, OLD.status, NEW.status);
    DELETE FROM judged_days WHERE first_id < NEW.payment_id AND last_id >= NEW.payment_id;
    DELETE FROM judged_months WHERE month = strftime('%Y-%m', NEW.created_at_ms / 1000, 'unixepoch');
  END`,
  purchases_doubted_moved: '',
}
