import { oneOf } from './oneOf.ts'

const states = [
  ...['settling', 'settled', 'delivered', 'claimed', 'rejected', 'pending', 'failed_final'],
  ...['refund_due', 'refunded', 'reorged'],
]

/** The states of a payment that a process works on under its lease. */
const open = ['claimed', 'settling', 'pending', 'settled']

const deleteUnusedBytes = `BEGIN
  DELETE FROM shared_bytes
  WHERE tx = old.tx AND NOT EXISTS (SELECT 1 FROM attempts WHERE is_shared = 1 AND tx = old.tx);
END`

/**
 * Payments and what belongs to each. A row that grows or is written at every step is apart from what is written once: SQLite writes
 * a row again whole, and the pages that a commit touches are most of its cost (bench/durableSteps.ts). Rows refer to a payment by
 * its number, not by its key: numbers grow, so new rows share a page, where keys are spread over all.
 */
export const payments = [
  // ANY: packed bytes, or a text that has another form (adapters/sql/packed.ts).
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
    state TEXT NOT NULL CHECK (${oneOf('state', states)}),
    lease INTEGER CHECK (lease IS NULL OR ${oneOf('state', open)}),
    due_at_ms INTEGER, -- when recovery checks it next
    tries INTEGER NOT NULL DEFAULT 0,
    due_reason TEXT,
    tx_hash ANY,
    event TEXT, -- which transfer of the transaction paid
    block INTEGER,
    charged_atomic TEXT,
    error_reason TEXT,
    landed_late INTEGER NOT NULL DEFAULT 0, -- found on chain after it had been given up
    updated_at_ms INTEGER NOT NULL,
    session_id TEXT
  ) STRICT`,
  'CREATE INDEX payments_leased ON payments (lease) WHERE lease IS NOT NULL',
  // No query looks for delivered sales: without them the index is as small as what is open.
  `CREATE INDEX payments_open ON payments (state, due_at_ms)
    WHERE state <> 'delivered' OR due_at_ms IS NOT NULL`,
  'CREATE INDEX payments_put_off ON payments (tries) WHERE tries > 0',
  'CREATE INDEX payments_session ON payments (session_id) WHERE session_id IS NOT NULL',
  `CREATE TABLE payment_payloads (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    payload TEXT NOT NULL
  ) STRICT`,
  `CREATE TABLE answers (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    status INTEGER NOT NULL,
    headers TEXT NOT NULL, -- a JSON list: name, value, name, value …
    body BLOB NOT NULL
  ) STRICT`,
  // One refund per payment, and one payment per refund transaction. EVM hashes are the same in either case of letters.
  `CREATE TABLE refunds (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    network TEXT NOT NULL,
    tx_hash TEXT NOT NULL CHECK (network NOT LIKE 'eip155:%' OR tx_hash = lower(tx_hash)),
    refunded_at_ms INTEGER NOT NULL,
    UNIQUE (network, tx_hash)
  ) STRICT`,
  // There are few refunds, and they belong to sales of any time.
  'CREATE INDEX refunds_time ON refunds (refunded_at_ms)',
]

/** Signed transactions. Bytes that settle several payments are kept once, while at least one of these has them. */
export const attempts = [
  `CREATE TABLE attempts (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    settler TEXT NOT NULL,
    bytes TEXT NOT NULL,
    tx TEXT NOT NULL,
    sequence TEXT, -- the transaction's nonce
    is_shared INTEGER NOT NULL DEFAULT 0 -- the bytes are in shared_bytes
  ) STRICT`,
  // Not unique by itself: several payments may be in one transaction, and a finished payment keeps its nonce.
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
