import { isIPv4, isIPv6 } from 'node:net'

/** Token buckets, one a key. Time comes from the caller. Full ones are forgotten, so memory follows the busy keys. */
export class Buckets {
  readonly #capacity: number
  readonly #perMs: number
  readonly #levels = new Map<string, { level: number; atMs: number }>()

  constructor(capacity: number, perSecond: number) {
    this.#capacity = capacity
    this.#perMs = perSecond / 1000
  }

  /** Takes one. @returns 0 when there was one, else the milliseconds until there is; then nothing was taken. */
  take(key: string, nowMs: number): number {
    const level = this.#levelOf(key, nowMs)
    if (level < 1) {
      this.#levels.set(key, { level, atMs: nowMs })
      return Math.ceil((1 - level) / this.#perMs)
    }
    this.#levels.set(key, { level: level - 1, atMs: nowMs })
    return 0
  }

  /** Forgets keys whose bucket is full again. */
  sweep(nowMs: number): void {
    for (const key of this.#levels.keys())
      if (this.#levelOf(key, nowMs) >= this.#capacity) this.#levels.delete(key)
  }

  get size(): number {
    return this.#levels.size
  }

  #levelOf(key: string, nowMs: number): number {
    const found = this.#levels.get(key)
    if (found === undefined) return this.#capacity
    const elapsedMs = Math.max(0, nowMs - found.atMs)
    return Math.min(this.#capacity, found.level + elapsedMs * this.#perMs)
  }
}

/**
 * What one network is counted by: an IPv4 address, also where it is written as IPv6, and the first 64 bits of an IPv6 address, of
 * which whoever has one has all the rest (RFC 6177).
 */
export function addressKey(address: string): string {
  const mapped = /^::ffff:(.+)$/i.exec(address)?.[1]
  if (mapped !== undefined && isIPv4(mapped)) return mapped
  const [bare = ''] = address.split('%')
  if (!isIPv6(bare)) return address
  const [head = '', tail] = bare.toLowerCase().split('::')
  const first = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  const groups =
    tail === undefined ? first : [...first, ...Array(8 - first.length - last.length).fill('0'), ...last]
  const network = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16))
  return `${network.join(':')}::/64`
}
