import type { StoreId } from './link.ts'
import type { ChainName } from './network.ts'

/** Somebody who is signed in with a browser, as stored: never the token of the cookie, only its hash. */
export interface BrowserSession {
  readonly id: string
  /** Whose store it may change; null: the operator's, who signs in with a token and has no store. */
  readonly storeId: StoreId | null
  /** A mark of the credential that the session stands on, and behind a colon SHA-256 of the cookie's text and the credential, hex. */
  readonly tokenHash: string
  /** The wallet that signed in; null for the operator. */
  readonly wallet: { readonly chain: ChainName; readonly address: string } | null
  /** What the browser calls itself, shortened: for its owner to tell sessions apart, never to decide by. */
  readonly userAgent: string
  readonly createdAtMs: number
  readonly lastSeenAtMs: number
  /** Nobody is signed in by it from then on. */
  readonly endsAtMs: number
}

/** A session that nobody uses ends after so long. */
export const SESSION_IDLE_MS = 12 * 60 * 60_000
/** However much it is used, it ends then. */
export const SESSION_MOST_MS = 7 * 24 * 60 * 60_000

/** When a session ends that is seen at a moment. */
export const endOfSession = (createdAtMs: number, seenAtMs: number): number =>
  Math.min(createdAtMs + SESSION_MOST_MS, seenAtMs + SESSION_IDLE_MS)
