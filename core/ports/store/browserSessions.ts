import type { BrowserSession } from '../../domain/browserSession.ts'
import type { StoreId } from '../../domain/link.ts'

/** Browser sessions. Every read sees the stored state, so that the end of a session takes effect at once in every process. */
export interface BrowserSessions {
  /**
   * Adds a browser session. The same commit deletes all sessions that have ended, and the holder's least recently seen sessions
   * beyond `maxLive`.
   */
  add(session: BrowserSession, nowMs: number, maxLive: number): Promise<void>
  /** The browser session with this token, if it has not ended. */
  byHash(tokenHash: string, nowMs: number): Promise<BrowserSession | undefined>
  /** The browser sessions of a store that have not ended, last seen first. The operator's sessions if `storeId` is null. */
  ofHolder(storeId: StoreId | null, nowMs: number): Promise<BrowserSession[]>
  /** Ends a browser session. @returns false if the holder has no such session */
  end(storeId: StoreId | null, id: string): Promise<boolean>
  /** Records when the session was last seen. The write may be lost in a crash. It never revives an ended session. */
  touch(id: string, lastSeenAtMs: number, endsAtMs: number): Promise<void>
}
