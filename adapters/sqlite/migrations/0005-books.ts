import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/**
 * Payments with a lease in the place of an owner's name, due times, and purchases that share a transaction. Never edited
 * once released: a change is a new migration.
 *
 * Runs without foreign keys: tables that others refer to are made anew under their names.
 */
export const books: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of [...leases, ...payments, ...purchases]) await sql.raw(statement).execute(db)
  },
}

const leases = [
  // AUTOINCREMENT: the number of a lease that is gone is not given out again.
  `CREATE TABLE leases (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    ttl_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    holder TEXT
  ) STRICT`,
  'DROP TABLE heartbeats',
]

const states = [
  ...['settling', 'settled', 'delivered', 'claimed', 'rejected', 'pending', 'failed_final'],
  ...['refund_due', 'refunded', 'reorged'],
]

const open = `state = 'claimed' OR state = 'settling' OR state = 'pending' OR state = 'settled'`

const payments = [
  `CREATE TABLE payments_of_0005 (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE CHECK (length(key) = 32),
    network TEXT NOT NULL,
    asset TEXT NOT NULL,
    payer TEXT NOT NULL,
    nonce TEXT NOT NULL,
    pay_to TEXT NOT NULL,
    amount_atomic TEXT NOT NULL CHECK (amount_atomic NOT GLOB '*[^0-9]*' AND amount_atomic <> ''),
    valid_before_ms INTEGER NOT NULL,
    scheme TEXT NOT NULL,
    link_id TEXT NOT NULL,
    store_id TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    purchase_id TEXT NOT NULL,
    claimed_at_ms INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (${states.map((state) => `state = '${state}'`).join(' OR ')}),
    lease INTEGER CHECK (lease IS NULL OR ${open}),
    due_at_ms INTEGER,
    tries INTEGER NOT NULL DEFAULT 0,
    due_reason TEXT,
    tx_hash TEXT,
    event TEXT,
    block INTEGER,
    charged_atomic TEXT,
    error_reason TEXT,
    landed_late INTEGER NOT NULL DEFAULT 0,
    updated_at_ms INTEGER NOT NULL
  ) STRICT`,
  // What nobody works on any more has no lease; what is open is left to whoever looks for rows of leases that are over.
  // 'verified' said that the chain had been asked, which nobody has to know: such a claim has sent nothing either.
  `INSERT INTO payments_of_0005
    SELECT p.id, unhex(p.key), p.network, p.asset, p.payer, p.nonce, p.pay_to, p.amount_atomic, p.valid_before_ms,
      'exact', p.link_id, p.store_id, p.request_hash, p.purchase_id, p.claimed_at_ms,
      CASE p.state WHEN 'verified' THEN 'claimed' ELSE p.state END,
      CASE WHEN p.state IN ('claimed', 'verified', 'settling', 'pending')
        OR (p.state = 'settled' AND a.payment_id IS NULL) THEN 0 END,
      CASE WHEN p.state IN ('pending', 'reorged')
        OR (p.state = 'failed_final' AND p.updated_at_ms > unixepoch() * 1000 - 3600000) THEN 0 END,
      0, NULL, p.tx_hash, CASE WHEN p.tx_hash IS NOT NULL THEN 'nonce:' || p.nonce END, NULL,
      CASE WHEN p.state IN ('settled', 'delivered', 'refund_due', 'refunded', 'reorged') THEN p.amount_atomic END,
      p.error_reason, p.landed_late, p.updated_at_ms
    FROM payments p LEFT JOIN answers a ON a.payment_id = p.id`,
  'DROP TABLE payments',
  'ALTER TABLE payments_of_0005 RENAME TO payments',
  'CREATE INDEX payments_leased ON payments (lease) WHERE lease IS NOT NULL',
  // Nobody looks for what was sold and handed over: without it the index stays as small as what is open.
  `CREATE INDEX payments_open ON payments (state, due_at_ms)
    WHERE state <> 'delivered' OR due_at_ms IS NOT NULL`,
  'CREATE INDEX payments_put_off ON payments (tries) WHERE tries > 0',
]

const purchases = [
  `CREATE TABLE purchases_of_0005 (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    id TEXT NOT NULL UNIQUE,
    link_id TEXT NOT NULL,
    store_id TEXT NOT NULL,
    buyer_wallet TEXT NOT NULL,
    network TEXT NOT NULL,
    asset TEXT NOT NULL,
    symbol TEXT NOT NULL,
    decimals INTEGER NOT NULL,
    amount_atomic TEXT NOT NULL,
    fee_atomic TEXT NOT NULL,
    price_usd TEXT NOT NULL,
    tx_hash TEXT,
    event TEXT,
    status TEXT NOT NULL CHECK (
      status = 'settled' OR status = 'delivered' OR status = 'refund_due' OR status = 'refunded' OR status = 'reorged'),
    review_token_hash TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL
  ) STRICT`,
  `INSERT INTO purchases_of_0005
    SELECT u.payment_id, u.id, u.link_id, u.store_id, u.buyer_wallet, u.network, u.asset, u.symbol, u.decimals,
      u.amount_atomic, u.fee_atomic, u.price_usd, u.tx_hash, 'nonce:' || p.nonce, u.status, u.review_token_hash,
      u.created_at_ms
    FROM purchases u JOIN payments p ON p.id = u.payment_id`,
  'DROP TABLE purchases',
  'ALTER TABLE purchases_of_0005 RENAME TO purchases',
  // An EVM hash is the same in either case; a Solana signature is base58, where case counts.
  `CREATE UNIQUE INDEX purchases_transfer ON purchases
    (network, CASE WHEN network LIKE 'eip155:%' THEN lower(tx_hash) ELSE tx_hash END, event)`,
  'CREATE INDEX purchases_store ON purchases (store_id, created_at_ms, id)',
  'CREATE INDEX purchases_link ON purchases (link_id, created_at_ms, id)',
]
