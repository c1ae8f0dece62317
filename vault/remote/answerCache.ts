import { createHash } from 'node:crypto'

/** How long an answer can be asked for again, in milliseconds: longer than a proxy waits for one. */
const KEEP_MS = 5 * 60_000
const MAX_ENTRIES = 256
const MAX_BYTES = 8 * 1024 * 1024

/** Sends one sealed answer back the way the question came. */
export type Reply = (sealed: Buffer) => void

/** What a sealed request is called here. */
export const requestName = (sealed: Buffer): string => createHash('sha256').update(sealed).digest('base64')

interface Entry {
  reply: Reply
  answer: Buffer | undefined
  atMs: number
}

/**
 * The answers of one pairing, by the hash of the whole sealed request. A request that comes again, because a relay was
 * restarted or someone replays it, gets the same answer once more, or waits for it; nothing runs twice. What was evicted
 * is refused by the session's replay window.
 */
export class AnswerCache {
  readonly #entries = new Map<string, Entry>()
  #bytes = 0

  /**
   * A request that came before: its answer is sent to `reply`, now or when there is one, and no longer to who asked before.
   * @returns undefined when it did not come before
   */
  repeat(name: string, reply: Reply): 'answered' | 'under-way' | undefined {
    const found = this.#entries.get(name)
    if (found === undefined) return undefined
    found.reply = reply
    if (found.answer === undefined) return 'under-way'
    reply(found.answer)
    return 'answered'
  }

  /** Takes a request that did not come before. */
  take(name: string, reply: Reply, nowMs: number): void {
    this.#entries.set(name, { reply, answer: undefined, atMs: nowMs })
  }

  /** Sends the answer and keeps it. */
  settle(name: string, answer: Buffer, nowMs: number): void {
    const entry = this.#entries.get(name)
    if (entry === undefined) return
    entry.answer = answer
    entry.atMs = nowMs
    this.#bytes += answer.byteLength
    this.#evict(nowMs)
    entry.reply(answer)
  }

  /** Forgets a request that was not performed; `notice` is sent if there is one. */
  drop(name: string, notice?: Buffer): void {
    const entry = this.#entries.get(name)
    if (!this.#entries.delete(name)) return
    if (notice !== undefined) entry!.reply(notice)
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
