import { LRUCache } from 'lru-cache'
import type { Clock } from '../core/ports/clock.ts'

/** Look-ups of addresses without a link that a client may cause at once, and then each second. */
const BURST = 200
const PER_SECOND = 10
const MAX_CLIENTS = 10_000

interface Bucket {
  taken: number
  atMs: number
}

/**
 * Counts how often each client made the gateway ask its store for an address that no link has, so that guessing costs the
 * database a bounded amount. In this process only: what it guards is this process's own asking.
 */
export class Strangers {
  readonly #buckets = new LRUCache<string, Bucket>({ max: MAX_CLIENTS })
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Takes one look-up; false when the client has none left now. */
  take(clientIp: string): boolean {
    const client = clientOf(clientIp)
    const nowMs = this.#clock.now()
    const bucket = this.#buckets.get(client) ?? { taken: 0, atMs: nowMs }
    const refilled = Math.max(0, ((nowMs - bucket.atMs) / 1000) * PER_SECOND)
    bucket.taken = Math.max(0, bucket.taken - refilled)
    bucket.atMs = nowMs
    if (bucket.taken + 1 > BURST) return false
    bucket.taken++
    this.#buckets.set(client, bucket)
    return true
  }

  /** The address had a link after all: finding those is free. */
  giveBack(clientIp: string): void {
    const bucket = this.#buckets.get(clientOf(clientIp))
    if (bucket !== undefined) bucket.taken = Math.max(0, bucket.taken - 1)
  }
}

/** Of an IPv6 address the /64, which one customer has whole (RFC 6177); as the system or the proxy wrote it. */
function clientOf(ip: string): string {
  if (!ip.includes(':') || ip.startsWith('::ffff:')) return ip
  const at = ip.indexOf('::')
  const parts = (at === -1 ? ip : ip.slice(0, at)).split(':')
  return parts.slice(0, 4).join(':')
}
