import type { Socket } from 'node:net'

/** What tells a socket from all others that are open; a closed one has forgotten it. */
interface SocketName {
  readonly remoteAddress?: string | undefined
  readonly remotePort?: number | undefined
  readonly localPort?: number | undefined
}

/**
 * Sockets that have not become a connection of the relay. When there are too many, the address that has most of them loses its
 * oldest, of equal addresses the one that came first: opening takes a moment, and who only keeps a place has to give it up.
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

  /** @param socket the same one, or the TLS socket that stands on it */
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
