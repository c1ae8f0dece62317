import type { BrowserSession } from '../../domain/browserSession.ts'
import type { StoreId } from '../../domain/link.ts'

/** Who is signed in with a browser. Whatever is read is what is stored now: an end counts at once, in every process. */
export interface BrowserSessions {
  /**
   * Adds one; whatever has ended goes. Of the same holder at most `maxLive` are left: those go that were seen longest ago.
   * All of it in one commit.
   */
  add(session: BrowserSession, nowMs: number, maxLive: number): Promise<void>
  /** The live one with this token. */
  byHash(tokenHash: string, nowMs: number): Promise<BrowserSession | undefined>
  /** The live ones of a store, or with null of the operator; last seen first. */
  ofHolder(storeId: StoreId | null, nowMs: number): Promise<BrowserSession[]>
  /** False when the holder has no such session. */
  end(storeId: StoreId | null, id: string): Promise<boolean>
  /** It was seen. May be lost in a crash; brings nothing back that was ended. */
  touch(id: string, lastSeenAtMs: number, endsAtMs: number): Promise<void>
}
