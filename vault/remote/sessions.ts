import { keyIdOf } from './channel/envelope.ts'
import { createKeyPair, type KeyPair } from './channel/keyPair.ts'

/** How far behind the newest a sequence number may be, in calls. More than are ever under way at once. */
const WINDOW_SIZE = 1024
/** How long the vault keeps a session's key, in milliseconds. The proxy asks for the next one before that. */
export const SESSION_MS = 15 * 60_000
/** Sessions of one pairing at once: a proxy has one or two; a second proxy with the same identity has its own. */
const MAX_SESSIONS = 8

export interface Session {
  readonly keyId: Buffer
  readonly keys: KeyPair
  readonly expiresAtMs: number
  /** Which calls of the session were taken. */
  readonly window: ReplayWindow
}

/**
 * The session keys of one pairing. They are never written anywhere; a key whose time is over is zeroed, and what was
 * sealed to it can not be opened any more, by anyone. So a replayed call finds its window or no key at all.
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

  /** Ends all of them. */
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
 * Remembers which sequence numbers of a session were used (RFC 4303, section 3.4.3). Calls may overtake one another, but
 * none is taken twice, and none that is older than the window.
 */
export class ReplayWindow {
  #highest = 0
  readonly #taken = new Uint8Array(WINDOW_SIZE)

  /** True once for each number from 1 on; only for a message that was authenticated, or a forger could burn numbers. */
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
