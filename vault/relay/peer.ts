import type { WebSocket } from 'ws'
import { type Backlog, largestOfLargestAddress } from './backlog.ts'

/** Why a connection is ended; sent as the close code (RFC 6455, section 7.4.2: 4000 to 4999 are ours). */
export const closeCodes = {
  goingAway: 1001,
  badFrame: 4000,
  unidentified: 4001,
  tooMany: 4002,
  tooSlow: 4003,
} as const

/** Bytes that the operating system is given ahead; what waits behind them can still be taken in turn, or dropped. */
const WINDOW_BYTES = 256 * 1024
/** What a frame takes beside its bytes: many small ones are no way around the bounds. */
const frameOverhead = 64

/** Frames for one receiver that came by one routing id, in their order. */
interface Lane {
  readonly frames: { readonly bytes: Buffer; readonly from: Peer | undefined }[]
  /** Bytes that wait, those that are on their way out included. */
  size: number
}

/**
 * One connection with its queue. Each routing id has a lane of its own in a vault's queue, and the lanes take turns: one that
 * is flooded makes nobody else wait, is held back by itself, and loses its largest sender when that did not help. A frame
 * that is sent counts until the operating system took it.
 */
export class Peer {
  readonly id: number
  readonly ip: string
  readonly socket: WebSocket
  isAlive = true
  isIdentified = false
  readonly #backlog: Backlog
  readonly #maxBytes: number
  /** In the order of their turns. */
  readonly #lanes = new Map<string, Lane>()
  /** Senders that wait for their lane of this connection's queue to empty. */
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
   * @param route the routing id that the frame came by, hex; '' for the relay's own
   * @param from who sent it, where that one can be held back
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
    // So much waits that holding senders back did not help: there are too many of them.
    while (this.#waiting >= this.#maxBytes * 2 && this.shed());
    this.#backlog.relieve()
  }

  /**
   * Gives up what is largest of what waits here: the sender that has most in the longest lane, or, where nobody else is the
   * cause, this connection. @returns false when there was nothing left to give up
   */
  shed(): boolean {
    if (this.#isGone) return false
    const largest = this.#largestSender()
    if (largest === undefined) {
      // All of it is with the operating system already, and nobody reads it.
      this.#drop()
      return true
    }
    const { lane, sender } = largest
    const kept = lane.frames.filter(({ from }) => from !== sender)
    const dropped = lane.frames.filter(({ from }) => from === sender)
    lane.frames.splice(0, lane.frames.length, ...kept)
    for (const { bytes } of dropped) this.#count(lane, -bytes.byteLength - frameOverhead)
    this.#forgetEmpty()
    sender.end(closeCodes.tooSlow, 'more than the vault takes')
    return true
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
    if (this.#isGone) return
    this.#isGone = true
    this.#backlog.change(-this.#waiting)
    this.#backlog.leave(this)
    this.#waiting = 0
    this.#lanes.clear()
    for (const sender of this.#held.keys()) sender.resume()
    this.#held.clear()
  }

  /** The part of the queue that one lane may have when the queue is full. */
  get #share(): number {
    return this.#maxBytes / this.#lanes.size
  }

  /** Of the lane with the most bytes of senders that still wait here, the sender of most of them. */
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

  /** Reads nothing more from `sender` until half of its lane's share has left. */
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

  /** Hands frames on, a lane's turn after the other's, as far as the window goes. */
  #drain(): void {
    while (this.#onTheirWay < WINDOW_BYTES) {
      const turn = this.#next()
      if (turn === undefined) return
      const [route, lane] = turn
      const { bytes } = lane.frames.shift()!
      // To the end of the line.
      this.#lanes.delete(route)
      this.#lanes.set(route, lane)
      this.#onTheirWay += bytes.byteLength
      this.socket.send(bytes, { binary: true }, () => {
        this.#onTheirWay -= bytes.byteLength
        if (this.#isGone) return
        this.#count(lane, -bytes.byteLength - frameOverhead)
        this.#forgetEmpty()
        this.#letGo()
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

  #letGo(): void {
    for (const [sender, route] of this.#held) {
      const size = this.#lanes.get(route)?.size ?? 0
      if (this.#waiting > this.#maxBytes / 2 && size > this.#share / 2) continue
      this.#held.delete(sender)
      sender.resume()
    }
  }
}

/**
 * Who has to go where all places are taken and one more comes: a connection of the address that holds most of them, if that is
 * more than the newcomer's would have; the newest one, and one that has not said what it is before any other. Undefined where
 * places are held evenly: then the newcomer is too many.
 */
export function makeRoomFor(newcomer: Pick<Peer, 'ip'>, peers: Iterable<Peer>): Peer | undefined {
  const all = [...peers]
  const crowded = largestOfLargestAddress(all, () => 1)?.ip
  const crowd = all.filter(({ ip }) => ip === crowded)
  const own = all.filter(({ ip }) => ip === newcomer.ip)
  if (crowd.length <= own.length + 1) return undefined
  return crowd.findLast((peer) => !peer.isIdentified) ?? crowd.at(-1)
}
