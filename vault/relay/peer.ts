import type { WebSocket } from 'ws'

/** Why a connection is closed. It is sent as the close code (RFC 6455, section 7.4.2: 4000 to 4999 are for private use). */
export const closeCodes = {
  goingAway: 1001,
  badFrame: 4000,
  unidentified: 4001,
  tooMany: 4002,
  tooSlow: 4003,
} as const

/**
 * Maximum bytes that are passed to the operating system ahead of time. Only frames behind them can still be reordered or
 * dropped.
 */
const WINDOW_BYTES = 256 * 1024
/** Bytes that each frame counts in addition to its size, so that many small frames cannot bypass the limits. */
const frameOverhead = 64

/** Frames for one receiver from one routing id, in order. */
interface Lane {
  readonly frames: { readonly bytes: Buffer; readonly from: Peer | undefined }[]
  /** Bytes that wait, including those that are being sent. */
  size: number
}

/**
 * One connection with its queue. Each routing id has its own lane in a vault's queue, and the lanes take turns. So a flooded
 * lane delays no other lane. The senders of a flooded lane are paused. If that does not help, the lane loses its largest
 * sender. A sent frame counts until the operating system has accepted it.
 */
export class Peer {
  readonly id: number
  readonly ip: string
  readonly socket: WebSocket
  isAlive = true
  isIdentified = false
  readonly #backlog: Backlog
  readonly #maxBytes: number
  /** Lanes in the order of their turns. */
  readonly #lanes = new Map<string, Lane>()
  /** Senders that wait for their lane in this connection's queue to drain. */
  readonly #held = new Map<Peer, string>()
  #heldBy = 0
  #waiting = 0
  #onTheirWay = 0
  #isGone = false

  constructor(id: number, ip: string, socket: WebSocket, backlog: Backlog, maxBytes: number) {
    this.id = id
    this.ip = ip
    this.socket = socket
    this.#backlog = backlog
    this.#maxBytes = maxBytes
    backlog.join(this)
  }

  get isFull(): boolean {
    return this.#waiting >= this.#maxBytes
  }

  get waitingBytes(): number {
    return this.#waiting
  }

  /**
   * @param route the routing id of the frame, hex; '' for the relay's own frames
   * @param from the sender, if it can be paused
   */
  send(bytes: Buffer, route = '', from?: Peer): void {
    if (this.#isGone) return
    let lane = this.#lanes.get(route)
    if (lane === undefined) {
      lane = { frames: [], size: 0 }
      this.#lanes.set(route, lane)
    }
    lane.frames.push({ bytes, from })
    this.#count(lane, bytes.byteLength + frameOverhead)
    if (from !== undefined && this.isFull && lane.size >= this.#share) this.#holdBack(from, route)
    this.#drain()
    // So many bytes wait that pausing senders did not help, because there are too many senders.
    while (this.#waiting >= this.#maxBytes * 2 && this.shed());
    this.#backlog.relieve()
  }

  /**
   * Drops the largest part of the waiting bytes, which is the sender with the most bytes in the longest lane. If no sender is
   * the cause, it drops this connection.
   * @returns false if there was nothing left to drop
   */
  shed(): boolean {
    if (this.#isGone) return false
    const largest = this.#largestSender()
    if (largest === undefined) {
      // The operating system already has all bytes, and the receiver does not read them.
      this.#drop()
      return true
    }
    const { lane, sender } = largest
    const kept = lane.frames.filter(({ from }) => from !== sender)
    const dropped = lane.frames.filter(({ from }) => from === sender)
    lane.frames.splice(0, lane.frames.length, ...kept)
    for (const { bytes } of dropped) this.#count(lane, -bytes.byteLength - frameOverhead)
    this.#forgetEmpty()
    sender.end(closeCodes.tooSlow, 'faster than the vault reads')
    return true
  }

  /** Stops reading until `resume` was called as often as `pause`. */
  pause(): void {
    if (this.#heldBy++ === 0) this.socket.pause()
  }

  resume(): void {
    if (--this.#heldBy === 0) this.socket.resume()
  }

  end(code: number, reason: string): void {
    this.socket.close(code, reason)
    // If the other side does not respond to the close, its waiting bytes would stay in memory.
    setTimeout(() => this.socket.terminate(), 1000).unref()
  }

  /** Call this when the connection has closed. */
  release(): void {
    if (this.#isGone) return
    this.#isGone = true
    this.#backlog.change(-this.#waiting)
    this.#backlog.leave(this)
    this.#waiting = 0
    this.#lanes.clear()
    for (const sender of this.#held.keys()) sender.resume()
    this.#held.clear()
  }

  /** One lane's part of a full queue. */
  get #share(): number {
    return this.#maxBytes / this.#lanes.size
  }

  /** The sender of most bytes in the lane that has the most bytes of connected senders. */
  #largestSender(): { readonly lane: Lane; readonly sender: Peer } | undefined {
    let found: { lane: Lane; sender: Peer } | undefined
    for (const lane of this.#lanes.values()) {
      if (found !== undefined && lane.size <= found.lane.size) continue
      const sizes = new Map<Peer, number>()
      for (const { bytes, from } of lane.frames)
        if (from !== undefined) sizes.set(from, (sizes.get(from) ?? 0) + bytes.byteLength + frameOverhead)
      const [sender] = [...sizes].sort((a, b) => b[1] - a[1])[0] ?? []
      if (sender !== undefined) found = { lane, sender }
    }
    return found
  }

  #drop(): void {
    this.socket.terminate()
    this.release()
  }

  /** Stops reading from `sender` until half of its lane's share has drained. */
  #holdBack(sender: Peer, route: string): void {
    if (this.#held.has(sender)) return
    this.#held.set(sender, route)
    sender.pause()
  }

  #count(lane: Lane, change: number): void {
    lane.size += change
    this.#waiting += change
    this.#backlog.change(change)
  }

  /** Sends frames from one lane after the other, as far as the window allows. */
  #drain(): void {
    while (this.#onTheirWay < WINDOW_BYTES) {
      const turn = this.#next()
      if (turn === undefined) return
      const [route, lane] = turn
      const { bytes } = lane.frames.shift()!
      // The lane moves to the end of the order.
      this.#lanes.delete(route)
      this.#lanes.set(route, lane)
      this.#onTheirWay += bytes.byteLength
      this.socket.send(bytes, { binary: true }, () => {
        this.#onTheirWay -= bytes.byteLength
        if (this.#isGone) return
        this.#count(lane, -bytes.byteLength - frameOverhead)
        this.#forgetEmpty()
        this.#releaseWaiting()
        this.#drain()
      })
    }
  }

  #forgetEmpty(): void {
    for (const [route, { size }] of this.#lanes) if (size === 0) this.#lanes.delete(route)
  }

  #next(): [string, Lane] | undefined {
    for (const turn of this.#lanes) if (turn[1].frames.length > 0) return turn
    return undefined
  }

  #releaseWaiting(): void {
    for (const [sender, route] of this.#held) {
      const size = this.#lanes.get(route)?.size ?? 0
      if (this.#waiting > this.#maxBytes / 2 && size > this.#share / 2) continue
      this.#held.delete(sender)
      sender.resume()
    }
  }
}

/**
 * The connection to close if all slots are taken and a new connection arrives. It belongs to the address with the most
 * connections, if these are more than the new connection's address would have. It is the newest connection that has not
 * identified itself or, if there is none, the newest. Undefined if slots are distributed evenly. The new connection is refused
 * then.
 */
export function makeRoomFor(newcomer: Pick<Peer, 'ip'>, peers: Iterable<Peer>): Peer | undefined {
  const all = [...peers]
  const crowded = largestOfLargestAddress(all, () => 1)?.ip
  const crowd = all.filter(({ ip }) => ip === crowded)
  const own = all.filter(({ ip }) => ip === newcomer.ip)
  if (crowd.length <= own.length + 1) return undefined
  return crowd.findLast((peer) => !peer.isIdentified) ?? crowd.at(-1)
}

/** A connection, for counting. */
interface Holder {
  readonly ip: string
}

/** A receiver with waiting bytes. */
interface Receiver extends Holder {
  readonly waitingBytes: number
  /** Drops the largest part of what waits. @returns whether there was anything */
  shed(): boolean
}

/**
 * Bytes that wait for receivers, over all connections of a relay. If there are too many, the address for which most of them
 * wait loses its largest parts until the limit is met. So a receiver with few waiting bytes is not affected by others that do
 * not read.
 */
export class Backlog {
  readonly maxBytes: number
  readonly #peers = new Set<Receiver>()
  #bytes = 0

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  join(peer: Receiver): void {
    this.#peers.add(peer)
  }

  leave(peer: Receiver): void {
    this.#peers.delete(peer)
  }

  change(bytes: number): void {
    this.#bytes += bytes
  }

  relieve(): void {
    while (this.#bytes > this.maxBytes) {
      const largest = largestOfLargestAddress(this.#peers, (peer) => peer.waitingBytes)
      if (largest === undefined || !largest.shed()) return
    }
  }
}

/** The largest peer of the address with the largest total. Undefined if all peers have nothing. */
function largestOfLargestAddress<T extends Holder>(
  peers: Iterable<T>,
  sizeOf: (peer: T) => number,
): T | undefined {
  const byAddress = new Map<string, { total: number; most: number; peer: T }>()
  for (const peer of peers) {
    const size = sizeOf(peer)
    if (size <= 0) continue
    const known = byAddress.get(peer.ip)
    if (known === undefined) byAddress.set(peer.ip, { total: size, most: size, peer })
    else {
      known.total += size
      if (size > known.most) Object.assign(known, { most: size, peer })
    }
  }
  let found: { total: number; peer: T } | undefined
  for (const one of byAddress.values()) if (found === undefined || one.total > found.total) found = one
  return found?.peer
}
