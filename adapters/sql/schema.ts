import type { Generated } from 'kysely'
import type { Packed } from './packed.ts'

/**
 * The columns as the queries see them. Money is TEXT of decimal digits, times are INTEGER ms since 1970, booleans 0 or 1,
 * lists and free JSON are TEXT; what is `Packed` may be bytes in SQLite. The tables themselves are in `schema/` of each database.
 */
export interface Schema {
  payments: PaymentTable
  payment_payloads: { payment_id: number; payload: string }
  attempts: AttemptTable
  answers: AnswerTable
  leases: { id: number; name: string; ttl_ms: number; expires_at_ms: number; holder: string | null }
  purchases: PurchaseTable
  ledger: LedgerTable
  refunds: RefundTable
  stores: StoreTable
  store_wallets: { chain: string; address: string; store_id: string }
  username_redirects: { username: string; store_id: string; expires_at_ms: number }
  renames: { store_id: string; at_ms: number; max_a_day: number }
  links: LinkTable
  slug_redirects: { store_id: string; slug: string; link_id: string; expires_at_ms: number }
  link_suspensions: { link_id: string; at_ms: number }
  health_events: HealthEventTable
  reviews: ReviewTable
  review_counts: { link_id: string; total: number; positive: number }
  link_stats: LinkStatsTable
  api_keys: ApiKeyTable
  sign_in_nonces: { nonce: string; chain: string; address: string; message: string; expires_at_ms: number }
  browser_sessions: BrowserSessionTable
  signups: { message_hash: string; store_id: string; expires_at_ms: number }
  changes: ChangeTable
  payment_sessions: SessionTable
  gas_spent: { network: string; store_id: string; day: number; spent: string }
}

export interface BrowserSessionTable {
  id: string
  /** Null: the operator's. */
  store_id: string | null
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
  /** Empty where no link is sold. */
  link_id: string
  session_id: string | null
  store_id: string
  request_hash: Packed
  purchase_id: string
  claimed_at_ms: number
  state: string
  /** Null where nobody works on it; 0 is nobody's, so that whoever looks takes it over. */
  lease: number | null
  /** By the store's clock. */
  due_at_ms: number | null
  tries: number
  due_reason: string | null
  tx_hash: Packed | null
  event: string | null
  block: number | null
  charged_atomic: string | null
  error_reason: string | null
  /** 1 when the transfer was found after the payment had been given up: refundable, without a purchase. */
  landed_late: number
  updated_at_ms: number
}

/** What was signed for the chain. */
export interface AttemptTable {
  payment_id: number
  settler: string
  bytes: string
  tx: string
  sequence: string | null
  /** 1: its bytes are in `shared_bytes`, with those of others. */
  is_shared: number
}

export interface AnswerTable {
  payment_id: number
  status: number
  headers: string
  body: Uint8Array
}

export interface PurchaseTable {
  payment_id: number
  id: string
  /** Empty where no link was sold. */
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
  /** Order of what was booked for one purchase, from 0: the sale, what took it back. */
  move: number
  /** JSON, see `entriesText`. */
  entries: string
}

/** How a charged payment was paid back. */
export interface RefundTable {
  payment_id: number
  network: string
  /** EVM: in lower case. */
  tx_hash: string
  refunded_at_ms: number
}

export interface StoreTable {
  id: string
  username: string
  display_name: string
  bio: string
  avatar_url: string
  /** JSON; without any when the store is made. */
  socials: Generated<string>
  developer_mode_enabled: number
  created_by: string
  payout_base: string | null
  payout_solana: string | null
  payout_changed_at_ms: number | null
  /** Null while it is the wallet that the store was made with; so is the next. */
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
  upstream_headers_sealed: string | null
  origin_document: string | null
  origin_key: string | null
  origin_operation: string | null
  suspension: string | null
  created_at_ms: number
  updated_at_ms: number
  version: number
}

export interface HealthEventTable {
  id: Generated<number>
  link_id: string
  at_ms: number
  kind: string
  ok: number
  status: number | null
  latency_ms: number | null
  detail: string
  asked_by_seller: Generated<number>
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

/** Noted by triggers (`changed`), counted later (`counted`). */
export interface LinkStatsTable {
  link_id: string
  changed: number
  counted: number
  counted_at_ms: number
  /** How many were counted: as much work is it again. */
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

/** Written by triggers, in the transaction of the change itself; read by every process that caches links. */
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
  /** JSON; null of those that were made before it was kept. */
  payout: string | null
  /** JSON, the amount as text; null where any token of the price will do. */
  asks: string | null
  metadata: string
  idempotency_key: string | null
  request_hash: string | null
  created_at_ms: number
  expires_at_ms: number
  state: string
  ended_at_ms: number | null
  /** The payment that is being settled for it, or has paid it. */
  payment_id: number | null
  failures: number
  purchase_id: string | null
  tx_hash: string | null
  network: string | null
  buyer_wallet: string | null
  /** 1 of one that has ended and that a payment was claimed for: it is never forgotten. */
  is_kept: number
}
