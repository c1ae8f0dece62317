import { createHash } from 'node:crypto'
import { transferMs } from '../relay/frames.ts'

/** How long an answer can be asked for again, in milliseconds: longer than a proxy waits for one. */
const KEEP_MS = 5 * 60_000
const MAX_ENTRIES = 256
const MAX_BYTES = 8 * 1024 * 1024

/** An answer is long when the slowest line takes more than this for it, in milliseconds. */
const LONG_TRANSFER_MS = 2_000
/** How often a long answer is sent again at once because its request came over a new connection. */
const MAX_IMMEDIATE_REPEATS = 4

/** The way back to a proxy. */
export interface ReplyPath {
  /** Another one after either end connected to the relay again: what was on the old way is lost. */
  readonly id: string
  send(sealed: Buffer): void
}

/** What a sealed request is called here. */
export const requestName = (sealed: Buffer): string => createHash('sha256').update(sealed).digest('base64')

/** Whether the proxy is sent `under-way` before this answer, and may send copies while it is being transferred. */
export const isLong = (answer: Buffer): boolean => transferMs(answer) > LONG_TRANSFER_MS

interface Entry {
  path: ReplyPath
  answer: Buffer | undefined
  atMs: number
  /** How often the answer was sent. */
  sends: number
  /** When the slowest line has transferred it, by the clock of `performance.now()`. */
  transferredAtMs: number
}

/**
 * The answers of one pairing, by the hash of the whole sealed request. A request that comes again, because a relay was
 * restarted or someone replays it, gets the same answer once more, or waits for it; nothing runs twice. What was evicted
 * is refused by the session's replay window. A long answer is not sent again while it can still be on its way.
 */
export class AnswerCache {
  readonly #entries = new Map<string, Entry>()
  #bytes = 0
  /** When the slowest line has transferred all that was sent, by the clock of `performance.now()`. */
  #lineFreeAtMs = 0

  /**
   * A request that came before: its answer takes this path, now or when there is one, and no longer the one before.
   * @returns undefined when it did not come before
   */
  repeat(name: string, path: ReplyPath): 'answered' | 'under-way' | undefined {
    const found = this.#entries.get(name)
    if (found === undefined) return undefined
    const isNewPath = found.path.id !== path.id
    found.path = path
    if (found.answer === undefined) return 'under-way'
    const isLost =
      found.transferredAtMs <= performance.now() || (isNewPath && found.sends <= MAX_IMMEDIATE_REPEATS)
    if (isLong(found.answer) && !isLost) return 'under-way'
    this.#send(found, found.answer)
    return 'answered'
  }

  /** Takes a request that did not come before. */
  take(name: string, path: ReplyPath, nowMs: number): void {
    this.#entries.set(name, { path, answer: undefined, atMs: nowMs, sends: 0, transferredAtMs: 0 })
  }

  /** Sends a notice about a request that is kept. */
  notify(name: string, notice: Buffer): void {
    this.#entries.get(name)?.path.send(notice)
  }

  /** Sends the answer and keeps it. */
  settle(name: string, answer: Buffer, nowMs: number): void {
    const entry = this.#entries.get(name)
    if (entry === undefined) return
    entry.answer = answer
    entry.atMs = nowMs
    this.#bytes += answer.byteLength
    this.#evict(nowMs)
    this.#send(entry, answer)
  }

  /** Forgets a request that was not performed; `notice` is sent if there is one. */
  drop(name: string, notice?: Buffer): void {
    const entry = this.#entries.get(name)
    if (!this.#entries.delete(name)) return
    if (notice !== undefined) entry!.path.send(notice)
  }

  #send(entry: Entry, answer: Buffer): void {
    entry.sends++
    this.#lineFreeAtMs = Math.max(this.#lineFreeAtMs, performance.now()) + transferMs(answer)
    entry.transferredAtMs = this.#lineFreeAtMs
    entry.path.send(answer)
  }

  /** Oldest first; never one that is under way. */
  #evict(nowMs: number): void {
    for (const [name, { answer, atMs }] of this.#entries) {
      const isOver = this.#entries.size > MAX_ENTRIES || this.#bytes > MAX_BYTES || atMs + KEEP_MS <= nowMs
      if (answer === undefined) continue
      if (!isOver) break
      this.#entries.delete(name)
      this.#bytes -= answer.byteLength
    }
  }
}
