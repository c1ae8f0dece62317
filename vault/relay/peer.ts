import type { WebSocket } from 'ws'

/** Bytes that wait for receivers, over all connections of a relay. */
export interface Backlog {
  bytes: number
  readonly maxBytes: number
}

/** Why a connection is ended; sent as the close code (RFC 6455, section 7.4.2: 4000 to 4999 are ours). */
export const closeCodes = {
  goingAway: 1001,
  badFrame: 4000,
  unidentified: 4001,
  tooMany: 4002,
  tooSlow: 4003,
} as const

/**
 * One connection with its queue. A frame that is sent counts until the operating system took it, in this connection's
 * backlog and in the relay's.
 */
export class Peer {
  readonly id: number
  readonly ip: string
  readonly socket: WebSocket
  isAlive = true
  isIdentified = false
  readonly #backlog: Backlog
  readonly #maxBytes: number
  /** Senders that wait for this connection's queue to empty. */
  readonly #held = new Set<Peer>()
  #heldBy = 0
  #waiting = 0

  constructor(id: number, ip: string, socket: WebSocket, backlog: Backlog, maxBytes: number) {
    this.id = id
    this.ip = ip
    this.socket = socket
    this.#backlog = backlog
    this.#maxBytes = maxBytes
  }

  get isFull(): boolean {
    return this.#waiting >= this.#maxBytes || this.#backlog.bytes >= this.#backlog.maxBytes
  }

  /** So much waits that holding senders back did not help: there are too many of them. */
  get isOverfull(): boolean {
    return this.#waiting >= this.#maxBytes * 2
  }

  send(bytes: Buffer): void {
    if (this.isOverfull) return this.socket.terminate()
    const size = bytes.byteLength
    this.#waiting += size
    this.#backlog.bytes += size
    this.socket.send(bytes, { binary: true }, () => {
      this.#waiting -= size
      this.#backlog.bytes -= size
      if (this.#held.size > 0 && this.#waiting <= this.#maxBytes / 2) this.#letGo()
    })
  }

  /** Reads nothing more from `sender` until half of this connection's queue has left. */
  holdBack(sender: Peer): void {
    if (this.#held.has(sender)) return
    this.#held.add(sender)
    sender.pause()
  }

  /** Stops reading; as many `resume` as `pause` start it again. */
  pause(): void {
    if (this.#heldBy++ === 0) this.socket.pause()
  }

  resume(): void {
    if (--this.#heldBy === 0) this.socket.resume()
  }

  end(code: number, reason: string): void {
    this.socket.close(code, reason)
    // A side that does not answer the close would keep what waits for it.
    setTimeout(() => this.socket.terminate(), 1000).unref()
  }

  /** To be called when the connection is gone. */
  release(): void {
    this.#letGo()
  }

  #letGo(): void {
    for (const sender of this.#held) sender.resume()
    this.#held.clear()
  }
}
