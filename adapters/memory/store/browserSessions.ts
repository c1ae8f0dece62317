import type { BrowserSession } from '../../../core/domain/browserSession.ts'
import type { BrowserSessions } from '../../../core/ports/store/browserSessions.ts'
import type { Access } from './access.ts'
import type { Tables } from './memory.ts'

/** Who is signed in with a browser, in memory. */
export function createBrowserSessions({ browserSessions }: Tables, { read, write }: Access): BrowserSessions {
  const live = (storeId: string | null, nowMs: number): BrowserSession[] =>
    browserSessions
      .values()
      .filter((one) => one.storeId === storeId && one.endsAtMs > nowMs)
      .sort((a, b) => b.lastSeenAtMs - a.lastSeenAtMs || (a.id < b.id ? -1 : 1))

  return {
    add: (session, nowMs, maxLive) =>
      write('flushed', () => {
        for (const one of browserSessions.values()) if (one.endsAtMs <= nowMs) browserSessions.delete(one.id)
        for (const one of live(session.storeId, nowMs).slice(maxLive - 1)) browserSessions.delete(one.id)
        browserSessions.set(session.id, session)
      }),

    byHash: (tokenHash, nowMs) =>
      read(() => browserSessions.values().find((one) => one.tokenHash === tokenHash && one.endsAtMs > nowMs)),

    ofHolder: (storeId, nowMs) => read(() => live(storeId, nowMs)),

    end: (storeId, id) =>
      write('flushed', () => {
        if (browserSessions.get(id)?.storeId !== storeId) return false
        browserSessions.delete(id)
        return true
      }),

    touch: (id, lastSeenAtMs, endsAtMs) =>
      write('visible', () => {
        const session = browserSessions.get(id)
        if (session !== undefined) browserSessions.set(id, { ...session, lastSeenAtMs, endsAtMs })
      }),
  }
}
