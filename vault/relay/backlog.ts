/** A connection as far as it takes place. */
interface Holder {
  readonly ip: string
}

/** A receiver whose bytes wait. */
interface Receiver extends Holder {
  readonly waitingBytes: number
  /** Gives up what is largest of what waits. @returns whether there was anything */
  shed(): boolean
}

/**
 * Bytes that wait for receivers, over all connections of a relay. When there are too many, the address that most of them
 * wait for loses what is largest, until it is enough: who waits for little is not touched by what others leave lying.
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

/** Of the address that has most in all, the peer that has most. Undefined where nobody has anything. */
export function largestOfLargestAddress<T extends Holder>(
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
