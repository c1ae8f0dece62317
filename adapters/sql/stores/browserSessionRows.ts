import type { BrowserSession } from '../../../core/domain/browserSession.ts'
import type { ChainName } from '../../../core/domain/network.ts'
import type { BrowserSessionTable } from '../schema.ts'

export const toSessionColumns = (session: BrowserSession): BrowserSessionTable => ({
  id: session.id,
  store_id: session.storeId,
  token_hash: session.tokenHash,
  chain: session.wallet?.chain ?? null,
  address: session.wallet?.address ?? null,
  user_agent: session.userAgent,
  created_at_ms: session.createdAtMs,
  last_seen_at_ms: session.lastSeenAtMs,
  ends_at_ms: session.endsAtMs,
})

export const toBrowserSession = (row: BrowserSessionTable): BrowserSession => ({
  id: row.id,
  storeId: row.store_id,
  tokenHash: row.token_hash,
  wallet:
    row.chain === null || row.address === null
      ? null
      : { chain: row.chain as ChainName, address: row.address },
  userAgent: row.user_agent,
  createdAtMs: row.created_at_ms,
  lastSeenAtMs: row.last_seen_at_ms,
  endsAtMs: row.ends_at_ms,
})
