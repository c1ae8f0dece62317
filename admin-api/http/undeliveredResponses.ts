import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'

/** How long an undelivered response is kept, in ms. Clients time out after 15 s and retry twice, half a second apart. */
const REMEMBERED_MS = 60_000
const REMEMBERED = 1_000

/**
 * Responses whose client disconnected before they were sent. Such a client repeats its request without a key that marks the repeat,
 * and then gets the kept response. A response is given only once. The responses are in the memory of this process, because no other
 * process runs the admin API.
 */
export class UndeliveredResponses<T> {
  readonly #made = new LRUCache<string, { readonly response: Promise<T>; readonly untilMs: number }>({
    max: REMEMBERED,
  })
  readonly #now: () => number

  constructor(clock: { now(): number }) {
    this.#now = () => clock.now()
  }

  /** Returns the undelivered response to an identical request of the same caller, but only once. */
  async take(request: FastifyRequest, callerId: string): Promise<T | undefined> {
    const name = nameOf(request, callerId)
    const undelivered = this.#made.get(name)
    this.#made.delete(name)
    if (undelivered === undefined || undelivered.untilMs <= this.#now()) return
    // If the first request was refused, the repeated request runs again.
    return undelivered.response.catch(() => undefined)
  }

  /** Keeps the response if its client disconnects before it is sent. */
  watch(request: FastifyRequest, reply: FastifyReply, callerId: string, response: Promise<T>): void {
    const name = nameOf(request, callerId)
    let isSent = false
    reply.raw.once('finish', () => {
      isSent = true
    })
    reply.raw.once('close', () => {
      if (isSent) return
      this.#made.set(name, { response, untilMs: this.#now() + REMEMBERED_MS })
    })
  }
}

const nameOf = ({ method, url, body }: FastifyRequest, callerId: string): string =>
  createHash('sha256')
    .update(JSON.stringify([callerId, method, url, body ?? null]))
    .digest('base64')
