import { keyIdOf } from './channel/envelope.ts'
import { createKeyPair, type KeyPair } from './channel/keyPair.ts'
import { ReplayWindow } from './channel/replayWindow.ts'

/** How long the vault keeps a session's key, in milliseconds. The proxy asks for the next one before that. */
export const sessionMs = 15 * 60_000
/** Sessions of one pairing at once: a proxy has one or two; a second proxy with the same identity has its own. */
const maxSessions = 8

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
    if (this.#sessions.length >= maxSessions) this.#end(this.#sessions.shift()!)
    const keys = createKeyPair('X25519')
    const session: Session = {
      keyId: keyIdOf(keys.publicKey),
      keys,
      expiresAtMs: nowMs + sessionMs,
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
