import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'

/** Clients give up after 15 s, and try twice more half a second apart. */
const REMEMBERED_MS = 60_000
const REMEMBERED = 1_000

/**
 * What was made for a client that was gone before it could be told. It sends the same request again, without a key that
 * would mark it as the same, and is told then; an answer that was sent is given to nobody else. Remembered in this
 * process, which is the only one that answers.
 */
export class UnheardAnswers<T> {
  readonly #made = new LRUCache<string, { readonly answer: Promise<T>; readonly untilMs: number }>({
    max: REMEMBERED,
  })
  readonly #now: () => number

  constructor(clock: { now(): number }) {
    this.#now = () => clock.now()
  }

  /** The answer to the same request of the same caller, word for word, that nobody heard; it is told once. */
  async take(request: FastifyRequest, callerId: string): Promise<T | undefined> {
    const name = nameOf(request, callerId)
    const unheard = this.#made.get(name)
    this.#made.delete(name)
    if (unheard === undefined || unheard.untilMs <= this.#now()) return
    // What was refused is made anew.
    return unheard.answer.catch(() => undefined)
  }

  /** Keeps the answer should its client be gone before it is sent. */
  watch(request: FastifyRequest, reply: FastifyReply, callerId: string, answer: Promise<T>): void {
    const name = nameOf(request, callerId)
    let isSent = false
    reply.raw.once('finish', () => {
      isSent = true
    })
    reply.raw.once('close', () => {
      if (isSent) return
      this.#made.set(name, { answer, untilMs: this.#now() + REMEMBERED_MS })
    })
  }
}

const nameOf = ({ method, url, body }: FastifyRequest, callerId: string): string =>
  createHash('sha256')
    .update(JSON.stringify([callerId, method, url, body ?? null]))
    .digest('base64')
