import type { Selectable } from 'kysely'
import type { Payout } from '../../../core/domain/link.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { PurchaseStatus } from '../../../core/domain/purchase.ts'
import type { AskedToken, Session, SessionMetadata, SessionStatus } from '../../../core/domain/session.ts'
import type { Asked, NewSession } from '../../../core/ports/store/sessions.ts'
import type { SessionTable } from '../schema.ts'

/** A new one. */
export function toSessionRow(session: NewSession): SessionTable {
  return {
    id: session.id,
    store_id: session.storeId,
    link_id: session.linkId,
    secret_hash: session.secretHash,
    price: session.price,
    title: session.title,
    description: session.description,
    success_url: session.successUrl,
    cancel_url: session.cancelUrl,
    allowed_origin: session.allowedOrigin,
    client_reference_id: session.clientReferenceId,
    payout: session.payout && JSON.stringify(session.payout),
    asks: session.asks && JSON.stringify({ ...session.asks, amountAtomic: `${session.asks.amountAtomic}` }),
    metadata: JSON.stringify(session.metadata),
    idempotency_key: session.idempotency?.key ?? null,
    request_hash: session.idempotency?.requestHash ?? null,
    created_at_ms: session.createdAtMs,
    expires_at_ms: session.expiresAtMs,
    state: 'open',
    ended_at_ms: null,
    payment_id: null,
    failures: 0,
    purchase_id: null,
    tx_hash: null,
    network: null,
    buyer_wallet: null,
    is_kept: 0,
  }
}

type AskedRow = Omit<AskedToken, 'amountAtomic'> & { readonly amountAtomic: string }

const toAsked = (row: AskedRow): AskedToken => ({ ...row, amountAtomic: BigInt(row.amountAtomic) })

/** What it asks for. */
export const askedOf = ({ price, asks }: Pick<SessionTable, 'price' | 'asks'>): Asked => ({
  price,
  asks: asks === null ? null : toAsked(JSON.parse(asks) as AskedRow),
})

/** @param statusOf of its purchase, which stands elsewhere */
export const toSession = (
  row: Selectable<SessionTable>,
  statusOf: (purchaseId: string) => PurchaseStatus,
): Session => ({
  id: row.id,
  storeId: row.store_id,
  linkId: row.link_id,
  secretHash: row.secret_hash,
  ...askedOf(row),
  title: row.title,
  description: row.description,
  successUrl: row.success_url,
  cancelUrl: row.cancel_url,
  allowedOrigin: row.allowed_origin,
  clientReferenceId: row.client_reference_id,
  payout: row.payout === null ? null : (JSON.parse(row.payout) as Payout),
  metadata: JSON.parse(row.metadata) as SessionMetadata,
  createdAtMs: row.created_at_ms,
  expiresAtMs: row.expires_at_ms,
  state: row.state as SessionStatus,
  endedAtMs: row.ended_at_ms,
  paymentRow: row.payment_id,
  failures: row.failures,
  paid:
    row.purchase_id === null
      ? null
      : {
          purchaseId: row.purchase_id,
          txHash: row.tx_hash,
          network: row.network as NetworkId,
          buyerWallet: row.buyer_wallet!,
          status: statusOf(row.purchase_id),
        },
})
