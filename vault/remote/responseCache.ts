import { createHash } from 'node:crypto'
import { transferMs } from '../relay/frames.ts'

/** How long a response can be requested again, in ms. It is longer than a proxy waits for one. */
const KEEP_MS = 5 * 60_000
const MAX_ENTRIES = 256
const MAX_BYTES = 8 * 1024 * 1024

/** A response counts as long if the slowest supported line needs more than this for it, in ms. */
const LONG_TRANSFER_MS = 2_000
/** How often a long response is sent again at once because its request came over a new connection. */
const MAX_IMMEDIATE_REPEATS = 4

/** The return path to a proxy. */
export interface ReplyPath {
  /** Changes when either end has reconnected to the relay. What was sent on the old path is lost. */
  readonly id: string
  send(sealed: Buffer): void
}

/** The cache's key of a sealed request. */
export const requestName = (sealed: Buffer): string => createHash('sha256').update(sealed).digest('base64')

/** Whether the proxy gets `under-way` before this response. It may send copies of the request during the transfer. */
export const isLong = (response: Buffer): boolean => transferMs(response) > LONG_TRANSFER_MS

interface Entry {
  path: ReplyPath
  response: Buffer | undefined
  atMs: number
  /** How often the response was sent. */
  sends: number
  /** When the slowest supported line has transferred it, by `performance.now()`. */
  transferredAtMs: number
}

/**
 * The responses of one pairing, by the hash of the whole sealed request. If a request is repeated, after a relay restart or by
 * a replay, it gets the same response or waits for it. So nothing runs twice. After a response was evicted, the session's
 * replay window refuses its request. A long response is not sent again while it can still be in transit.
 */
export class ResponseCache {
  readonly #entries = new Map<string, Entry>()
  #bytes = 0
  /** When the slowest supported line has transferred everything that was sent, by `performance.now()`. */
  #lineFreeAtMs = 0

  /**
   * Handles a repeated request. Its response takes this path instead of the previous one.
   * @returns undefined for a new request
   */
  repeat(name: string, path: ReplyPath): 'answered' | 'under-way' | undefined {
    const found = this.#entries.get(name)
    if (found === undefined) return undefined
    const isNewPath = found.path.id !== path.id
    found.path = path
    if (found.response === undefined) return 'under-way'
    const isLost =
      found.transferredAtMs <= performance.now() || (isNewPath && found.sends <= MAX_IMMEDIATE_REPEATS)
    if (isLong(found.response) && !isLost) return 'under-way'
    this.#send(found, found.response)
    return 'answered'
  }

  /** Registers a new request. */
  take(name: string, path: ReplyPath, nowMs: number): void {
    this.#entries.set(name, { path, response: undefined, atMs: nowMs, sends: 0, transferredAtMs: 0 })
  }

  /** Sends a notice about a registered request. */
  notify(name: string, notice: Buffer): void {
    this.#entries.get(name)?.path.send(notice)
  }

  /** Sends the response and stores it. */
  settle(name: string, response: Buffer, nowMs: number): void {
    const entry = this.#entries.get(name)
    if (entry === undefined) return
    entry.response = response
    entry.atMs = nowMs
    this.#bytes += response.byteLength
    this.#evict(nowMs)
    this.#send(entry, response)
  }

  /** Drops a request that was not performed, and sends `notice` if there is one. */
  drop(name: string, notice?: Buffer): void {
    const entry = this.#entries.get(name)
    if (!this.#entries.delete(name)) return
    if (notice !== undefined) entry!.path.send(notice)
  }

  #send(entry: Entry, response: Buffer): void {
    entry.sends++
    this.#lineFreeAtMs = Math.max(this.#lineFreeAtMs, performance.now()) + transferMs(response)
    entry.transferredAtMs = this.#lineFreeAtMs
    entry.path.send(response)
  }

  /** Drops responses, oldest first, but never a request in flight. */
  #evict(nowMs: number): void {
    for (const [name, { response, atMs }] of this.#entries) {
      const isOver = this.#entries.size > MAX_ENTRIES || this.#bytes > MAX_BYTES || atMs + KEEP_MS <= nowMs
      if (response === undefined) continue
      if (!isOver) break
      this.#entries.delete(name)
      this.#bytes -= response.byteLength
    }
  }
}
