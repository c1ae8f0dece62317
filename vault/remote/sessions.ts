import { keyIdOf } from '../channel/envelope.ts'
import { createKeyPair, type KeyPair } from '../channel/suite.ts'

/** How far a sequence number may be behind the newest. It is more than the number of calls that are ever in flight at once. */
const WINDOW_SIZE = 1024
/** How long the vault keeps a session's key, in ms. The proxy requests the next session before that. */
export const SESSION_MS = 15 * 60_000
/** Maximum sessions of one pairing. A proxy has one or two. A second proxy with the same identity has its own. */
const MAX_SESSIONS = 8

export interface Session {
  readonly keyId: Buffer
  readonly keys: KeyPair
  readonly expiresAtMs: number
  /** The sequence numbers of the session's calls that were accepted. */
  readonly window: ReplayWindow
}

/**
 * The session keys of one pairing. They are never written to disk. An expired key is zeroed, and what was sealed with it can no
 * longer be opened. So a replayed call is refused by its session's window or finds no key.
 */
export class Sessions {
  readonly #sessions: Session[] = []

  issue(nowMs: number): Session {
    this.#drop((session) => session.expiresAtMs <= nowMs)
    if (this.#sessions.length >= MAX_SESSIONS) this.#end(this.#sessions.shift()!)
    const keys = createKeyPair('X25519')
    const session: Session = {
      keyId: keyIdOf(keys.publicKey),
      keys,
      expiresAtMs: nowMs + SESSION_MS,
      window: new ReplayWindow(),
    }
    this.#sessions.push(session)
    return session
  }

  find(keyId: Buffer, nowMs: number): Session | undefined {
    this.#drop((session) => session.expiresAtMs <= nowMs)
    return this.#sessions.find((session) => session.keyId.equals(keyId))
  }

  /** Ends all sessions. */
  clear(): void {
    this.#drop(() => true)
  }

  #drop(isOver: (session: Session) => boolean): void {
    for (let i = this.#sessions.length - 1; i >= 0; i--)
      if (isOver(this.#sessions[i]!)) this.#end(this.#sessions.splice(i, 1)[0]!)
  }

  #end(session: Session): void {
    session.keys.privateKey.fill(0)
  }
}

/**
 * Records the used sequence numbers of a session (RFC 4303, section 3.4.3). Calls may overtake one another. No call is accepted
 * twice, or if it is older than the window.
 */
export class ReplayWindow {
  #highest = 0
  readonly #taken = new Uint8Array(WINDOW_SIZE)

  /**
   * Returns true once for each number from 1 on. Call it only for an authenticated message, because otherwise a forger could
   * use up numbers.
   */
  take(sequence: number): boolean {
    if (!Number.isSafeInteger(sequence) || sequence < 1) return false
    if (sequence <= this.#highest - WINDOW_SIZE) return false
    if (sequence > this.#highest) {
      const first = Math.max(this.#highest + 1, sequence - WINDOW_SIZE + 1)
      for (let i = first; i <= sequence; i++) this.#taken[i % WINDOW_SIZE] = 0
      this.#highest = sequence
    }
    const slot = sequence % WINDOW_SIZE
    if (this.#taken[slot] === 1) return false
    this.#taken[slot] = 1
    return true
  }
}
