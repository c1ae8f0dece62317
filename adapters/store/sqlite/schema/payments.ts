/** A check of a column's values. It does not use IN, because SQLite would build a table at each run for an IN with many values. */
export const columnCheck = (column: string, values: readonly string[]): string =>
  values.map((value) => `${column} = '${value}'`).join(' OR ')

const states = [
  ...['settling', 'settled', 'delivered', 'claimed', 'rejected', 'pending', 'failed_final'],
  ...['refund_due', 'refunded', 'reorged'],
]

/** The states in which a process works on a payment under its lease. */
const open = ['claimed', 'settling', 'pending', 'settled']

const deleteUnusedBytes = `BEGIN
  DELETE FROM shared_bytes
  WHERE tx = old.tx AND NOT EXISTS (SELECT 1 FROM attempts WHERE is_shared = 1 AND tx = old.tx);
END`

/**
 * Payments and the rows that belong to them. A row that grows or changes at every step is separate from a row that is written once.
 * SQLite rewrites whole rows, and the touched pages are most of a commit's cost (bench/durableSteps.ts).
 *
 * Other rows refer to a payment by its number and not by its key. Numbers grow, so new rows share a page. Keys would be spread over
 * all pages.
 */
export const payments = [
  // ANY columns have packed bytes, or a text in another form (adapters/store/sql/sales/paymentRows.ts).
  `CREATE TABLE payments (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE CHECK (length(key) = 32),
    network TEXT NOT NULL,
    asset TEXT NOT NULL,
    payer ANY NOT NULL,
    nonce ANY NOT NULL,
    pay_to ANY NOT NULL,
    amount_atomic TEXT NOT NULL CHECK (amount_atomic NOT GLOB '*[^0-9]*' AND amount_atomic <> ''),
    valid_before_ms INTEGER NOT NULL,
    scheme TEXT NOT NULL,
    link_id TEXT NOT NULL, -- empty: a payment session without a link
    store_id TEXT NOT NULL,
    request_hash ANY NOT NULL,
    purchase_id TEXT NOT NULL,
    claimed_at_ms INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (${columnCheck('state', states)}),
    lease INTEGER CHECK (lease IS NULL OR ${columnCheck('state', open)}),
    due_at_ms INTEGER, -- when recovery checks it next
    tries INTEGER NOT NULL DEFAULT 0,
    due_reason TEXT,
    tx_hash ANY,
    event TEXT, -- which transfer of the transaction paid
    block INTEGER,
    charged_atomic TEXT,
    error_reason TEXT,
    updated_at_ms INTEGER NOT NULL,
    session_id TEXT,
    identifier TEXT -- the buyer's own id of the payment
  ) STRICT`,
  'CREATE INDEX payments_leased ON payments (lease) WHERE lease IS NOT NULL',
  // The index leaves out delivered sales, because no query searches for them. So it has only open payments.
  `CREATE INDEX payments_open ON payments (state, due_at_ms)
    WHERE state <> 'delivered' OR due_at_ms IS NOT NULL`,
  'CREATE INDEX payments_put_off ON payments (tries) WHERE tries > 0',
  'CREATE INDEX payments_session ON payments (session_id) WHERE session_id IS NOT NULL',
  'CREATE UNIQUE INDEX payments_identifier ON payments (identifier, payer, network) WHERE identifier IS NOT NULL',
  `CREATE TABLE payment_payloads (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    payload TEXT NOT NULL
  ) STRICT`,
  `CREATE TABLE responses (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    status INTEGER NOT NULL,
    headers TEXT NOT NULL, -- a JSON list: name, value, name, value …
    body BLOB NOT NULL
  ) STRICT`,
  // A payment has one refund, and a refund transaction refunds one payment. EVM hashes are the same in upper and lower case.
  `CREATE TABLE refunds (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    network TEXT NOT NULL,
    tx_hash TEXT NOT NULL CHECK (network NOT LIKE 'eip155:%' OR tx_hash = lower(tx_hash)),
    refunded_at_ms INTEGER NOT NULL,
    UNIQUE (network, tx_hash)
  ) STRICT`,
  // Refunds that a reorganization removed from the chain. Such a transaction may refund its own payment again, but no other.
  `CREATE TABLE lost_refunds (
    payment_id INTEGER NOT NULL REFERENCES payments (id),
    network TEXT NOT NULL,
    tx_hash TEXT NOT NULL CHECK (network NOT LIKE 'eip155:%' OR tx_hash = lower(tx_hash)),
    refunded_at_ms INTEGER NOT NULL,
    lost_at_ms INTEGER NOT NULL,
    PRIMARY KEY (payment_id, tx_hash),
    UNIQUE (network, tx_hash)
  ) STRICT, WITHOUT ROWID`,
  // There are few refunds, and their sales may be of any time.
  'CREATE INDEX refunds_time ON refunds (refunded_at_ms)',
]

/** Signed transactions. If bytes settle several payments, they are stored once, as long as one of these payments needs them. */
export const attempts = [
  `CREATE TABLE attempts (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    settler TEXT NOT NULL,
    bytes TEXT NOT NULL,
    tx TEXT NOT NULL,
    sequence TEXT, -- the transaction's nonce
    is_shared INTEGER NOT NULL DEFAULT 0 -- 1: the bytes are in shared_bytes
  ) STRICT`,
  // The index is not unique. Several payments may share a transaction, and a finished payment keeps its nonce.
  `CREATE INDEX attempts_number ON attempts (settler, sequence)
    WHERE settler LIKE 'evm:%' AND sequence IS NOT NULL`,
  `CREATE TABLE shared_bytes (
    tx TEXT PRIMARY KEY NOT NULL,
    bytes TEXT NOT NULL
  ) STRICT`,
  'CREATE INDEX attempts_shared ON attempts (tx) WHERE is_shared = 1',
  `CREATE TRIGGER attempts_forgotten AFTER DELETE ON attempts WHEN old.is_shared = 1 ${deleteUnusedBytes}`,
  `CREATE TRIGGER attempts_replaced AFTER UPDATE OF tx ON attempts WHEN old.is_shared = 1 ${deleteUnusedBytes}`,
]
