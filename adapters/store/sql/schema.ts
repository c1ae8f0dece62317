import type { Generated } from 'kysely'

/**
 * The columns as queries see them. Money is TEXT of decimal digits, times are INTEGER ms since 1970, and booleans are 0 or 1. Lists
 * and free JSON are TEXT. A `Packed` column may be bytes in SQLite. The tables themselves are in `schema/` of each database.
 */
export interface Schema {
  payments: PaymentTable
  payment_payloads: { payment_id: number; payload: string }
  attempts: AttemptTable
  responses: ResponseTable
  leases: { id: number; name: string; ttl_ms: number; expires_at_ms: number; holder: string | null }
  purchases: PurchaseTable
  ledger: LedgerTable
  refunds: RefundTable
  lost_refunds: LostRefundTable
  stores: StoreTable
  store_wallets: { chain: string; address: string; store_id: string }
  username_redirects: { username: string; store_id: string; expires_at_ms: number }
  renames: { store_id: string; at_ms: number }
  links: LinkTable
  reviews: ReviewTable
  review_counts: { link_id: string; total: number; positive: number }
  link_stats: LinkStatsTable
  api_keys: ApiKeyTable
  sign_in_nonces: { nonce: string; chain: string; address: string; message: string; expires_at_ms: number }
  browser_sessions: BrowserSessionTable
  used_sign_ins: { nonce: string; kept_until_ms: number }
  link_buyers: { link_id: string; wallet: string; at_ms: number; payment_id: number }
  signups: { message_hash: string; store_id: string; expires_at_ms: number }
  changes: ChangeTable
  payment_sessions: SessionTable
  gas_spent: { network: string; store_id: string; day: number; spent: string }
}

export interface BrowserSessionTable {
  id: string
  /** Empty for the operator's browser sessions. */
  store_id: string
  token_hash: string
  chain: string | null
  address: string | null
  user_agent: string
  created_at_ms: number
  last_seen_at_ms: number
  ends_at_ms: number
}

export interface PaymentTable {
  id: Generated<number>
  /** 32 bytes. */
  key: Uint8Array
  network: string
  asset: string
  payer: Packed
  nonce: Packed
  pay_to: Packed
  amount_atomic: string
  valid_before_ms: number
  scheme: string
  /** Empty when no link is sold. */
  link_id: string
  session_id: string | null
  store_id: string
  request_hash: Packed
  purchase_id: string
  claimed_at_ms: number
  state: string
  /** Null when no process works on the payment. 0 belongs to no process, so that the next recovery adopts the payment. */
  lease: number | null
  /** The due time, by the database's clock. */
  due_at_ms: number | null
  tries: number
  due_reason: string | null
  tx_hash: Packed | null
  event: string | null
  block: number | null
  charged_atomic: string | null
  error_reason: string | null
  updated_at_ms: number
  /** The buyer's own id of the payment. */
  identifier: string | null
}

/** A signed transaction for the chain. */
export interface AttemptTable {
  payment_id: number
  settler: string
  bytes: string
  tx: string
  sequence: string | null
  /** 1 if the bytes are in `shared_bytes`, because several payments share them. */
  is_shared: number
}

export interface ResponseTable {
  payment_id: number
  status: number
  headers: string
  body: Uint8Array
}

export interface PurchaseTable {
  payment_id: number
  id: string
  /** Empty when no link was sold. */
  link_id: string
  session_id: string | null
  store_id: string
  buyer_wallet: string
  network: string
  asset: string
  symbol: string
  decimals: number
  amount_atomic: string
  fee_atomic: string
  price_usd: string
  tx_hash: Packed | null
  event: string | null
  status: string
  review_token_hash: Packed
  created_at_ms: number
}

export interface LedgerTable {
  purchase_id: string
  /** Number of a booking of a purchase. 0 is the sale, and its reversals follow. */
  move: number
  /** JSON, see `entriesText`. */
  entries: string
}

/** A transfer that paid a charged payment back. */
export interface RefundTable {
  payment_id: number
  network: string
  /** In lower case on EVM chains. */
  tx_hash: string
  refunded_at_ms: number
}

/** A refund that a reorganization removed from the chain. */
export interface LostRefundTable extends RefundTable {
  lost_at_ms: number
}

export interface StoreTable {
  id: string
  username: string
  display_name: string
  bio: string
  avatar_url: string
  /** JSON. A new store has an empty object. */
  socials: string
  developer_mode_enabled: number
  created_by: string
  payout_base: string | null
  payout_solana: string | null
  payout_changed_at_ms: number | null
  /** Null while the payout wallet is the one with which the store was created. The same holds for the next column. */
  payout_base_since_ms: number | null
  payout_solana_since_ms: number | null
  created_at_ms: number
  updated_at_ms: number
}

export interface LinkTable {
  id: string
  store_id: string
  url: string
  title: string
  description: string
  slug: string
  price: string
  price_max: string | null
  pricing: string | null
  is_public: number
  is_active: number
  link_type: string
  is_stealth: number
  private_slug: string | null
  webhook_url: string | null
  methods: string
  input_schema: string | null
  output_example: string | null
  tags: string
  icon_url: string | null
  response_mode: string
  settle: string
  access: string | null
  upstream_headers_sealed: string | null
  origin_document: string | null
  origin_key: string | null
  origin_operation: string | null
  suspension: string | null
  created_at_ms: number
  updated_at_ms: number
  version: number
}

export interface ReviewTable {
  id: string
  purchase_id: string
  link_id: string
  store_id: string
  wallet: string
  positive: number
  comment: string | null
  created_at_ms: number
}

/** Popularity of a link. Each change gets a number (`changed`), and discovery counts the link later (`counted`). */
export interface LinkStatsTable {
  link_id: string
  changed: number
  counted: number
  counted_at_ms: number
  /** Sales at the last count. They predict how long the next count takes. */
  sales: number
  buyers: number
  popularity: number
}

export interface ApiKeyTable {
  id: string
  store_id: string
  name: string
  key_prefix: string
  key_hash: string
  is_active: number
  last_used_at_ms: number | null
  revoked_at_ms: number | null
  created_at_ms: number
}

/** A change of a link or a store. The transaction of the change writes it, and every process that caches links reads it. */
export interface ChangeTable {
  id: number
  kind: string
  username: string
  slug: string | null
}

export interface SessionTable {
  id: string
  store_id: string
  link_id: string | null
  secret_hash: string
  price: string
  title: string
  description: string
  success_url: string | null
  cancel_url: string | null
  allowed_origin: string | null
  client_reference_id: string | null
  /** JSON */
  payout: string
  /** JSON, with amounts as text. Null when any token of the price is accepted. */
  asks: string | null
  metadata: string
  idempotency_key: string | null
  request_hash: string | null
  created_at_ms: number
  expires_at_ms: number
  state: string
  ended_at_ms: number | null
  /** The payment that is being settled for the session, or that has paid it. */
  payment_id: number | null
  failures: number
  purchase_id: string | null
  tx_hash: string | null
  network: string | null
  buyer_wallet: string | null
  /** 1 if the session has ended and a payment was claimed for it. Such a session is never deleted. */
  is_kept: number
}

/** A text, or SQLite's packed form of it. */
export type Packed = string | Uint8Array
