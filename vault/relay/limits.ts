import { isIPv4, isIPv6, type Socket } from 'node:net'

/**
 * Token buckets by key. The caller passes the time. Full buckets are dropped, so memory is proportional to the number of busy
 * keys.
 */
export class Buckets {
  readonly #capacity: number
  readonly #perMs: number
  readonly #levels = new Map<string, { level: number; atMs: number }>()

  constructor(capacity: number, perSecond: number) {
    this.#capacity = capacity
    this.#perMs = perSecond / 1000
  }

  /**
   * Takes one token. @returns 0 if there was one. Otherwise nothing was taken, and it is the number of ms until there is one
   */
  take(key: string, nowMs: number): number {
    const level = this.#levelOf(key, nowMs)
    if (level < 1) {
      this.#levels.set(key, { level, atMs: nowMs })
      return Math.ceil((1 - level) / this.#perMs)
    }
    this.#levels.set(key, { level: level - 1, atMs: nowMs })
    return 0
  }

  /** Drops keys whose bucket is full again. */
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
 * The rate-limit key of an address. It is an IPv4 address, also in its IPv6 form, or the first 64 bits of an IPv6 address,
 * because one user usually has all addresses with these bits (RFC 6177).
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

/** Distinguishes a socket from all other open sockets. A closed socket no longer has these fields. */
interface SocketName {
  readonly remoteAddress?: string | undefined
  readonly remotePort?: number | undefined
  readonly localPort?: number | undefined
}

/**
 * Sockets that are not yet a connection of the relay. If there are too many, the address with the most sockets loses its oldest
 * one. If several addresses have the most, the one that came first loses a socket. Opening takes only a moment, so the oldest
 * socket most likely only uses up a slot.
 */
export class HalfOpen {
  readonly #most: number
  readonly #byAddress = new Map<string, Map<string, Socket>>()
  #count = 0

  constructor(most: number) {
    this.#most = most
  }

  add(address: string, socket: Socket): void {
    const own = this.#byAddress.get(address) ?? new Map<string, Socket>()
    this.#byAddress.set(address, own)
    const name = nameOf(socket)
    if (!own.has(name)) this.#count++
    own.set(name, socket)
    if (this.#count > this.#most) this.#dropOne()
  }

  /** @param socket the same socket, or the TLS socket over it */
  delete(address: string, socket: SocketName): void {
    this.#forget(address, nameOf(socket))
  }

  #dropOne(): void {
    let found: [string, Map<string, Socket>] | undefined
    for (const one of this.#byAddress) if (found === undefined || one[1].size > found[1].size) found = one
    if (found === undefined) return
    const [name, socket] = found[1].entries().next().value!
    this.#forget(found[0], name)
    socket.destroy()
  }

  #forget(address: string, name: string): void {
    const own = this.#byAddress.get(address)
    if (!own?.delete(name)) return
    this.#count--
    if (own.size === 0) this.#byAddress.delete(address)
  }
}

const nameOf = ({ remoteAddress, remotePort, localPort }: SocketName): string =>
  `${remoteAddress} ${remotePort} ${localPort}`
/** The limits of a relay per client, so that no client can use all of it. */
export interface RelayLimits {
  /** Concurrent connections in total. */
  readonly maxConnections: number
  /** Concurrent connections per address. */
  readonly maxConnectionsPerIp: number
  /** New connections per minute and address. */
  readonly connectsPerMinutePerIp: number
  /** Frames per second and address, and the burst size. Further frames wait. */
  readonly framesPerSecondPerIp: number
  /** Routing ids per vault connection. */
  readonly maxRoutesPerVault: number
  /** Connections per routing id. */
  readonly maxAgentsPerRoute: number
  /** Maximum bytes that may wait for one receiver. Above that, its senders are paused, or a slow agent is disconnected. */
  readonly maxBufferedBytes: number
  /** Bytes that may wait for all receivers together. */
  readonly maxTotalBufferedBytes: number
  /** Time in which a connection has to identify itself, in ms. */
  readonly identifyMs: number
  /** Interval of pings, in ms. A connection that misses one is closed. */
  readonly pingMs: number
}

export const defaultRelayLimits: RelayLimits = {
  maxConnections: 4096,
  maxConnectionsPerIp: 256,
  connectsPerMinutePerIp: 240,
  framesPerSecondPerIp: 500,
  maxRoutesPerVault: 256,
  maxAgentsPerRoute: 16,
  maxBufferedBytes: 2 * 1024 * 1024,
  maxTotalBufferedBytes: 256 * 1024 * 1024,
  identifyMs: 10_000,
  pingMs: 30_000,
}
