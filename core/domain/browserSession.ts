import type { StoreId } from './link.ts'
import type { ChainName } from './network.ts'

/** A browser session as the database stores it. It contains a hash of the cookie's token, but not the token. */
export interface BrowserSession {
  readonly id: string
  /** The store that the session may change. Null for the operator's session, because the operator has no store. */
  readonly storeId: StoreId | null
  /**
   * A mark of the credential on which the browser session depends, a colon, and SHA-256 in hex of the cookie's text and the
   * credential.
   */
  readonly tokenHash: string
  /** The wallet that signed in. Null for the operator. */
  readonly wallet: { readonly chain: ChainName; readonly address: string } | null
  /** The browser's name, shortened, by which the owner distinguishes browser sessions. No decision depends on it. */
  readonly userAgent: string
  readonly createdAtMs: number
  readonly lastSeenAtMs: number
  /** End of the session, in ms since 1970. */
  readonly endsAtMs: number
}

/** How long a browser session may be unused before it ends, in ms. */
export const SESSION_IDLE_MS = 12 * 60 * 60_000
/** Maximum age of a browser session, even if it is used, in ms. */
export const SESSION_MOST_MS = 7 * 24 * 60 * 60_000

/** The end of a browser session that was last used at `seenAtMs`. */
export const endOfSession = (createdAtMs: number, seenAtMs: number): number =>
  Math.min(createdAtMs + SESSION_MOST_MS, seenAtMs + SESSION_IDLE_MS)
