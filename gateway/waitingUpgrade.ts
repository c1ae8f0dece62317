import type { Duplex } from 'node:stream'
import { Pieces } from '../core/http/pieces.ts'
import type { Upgrade } from '../core/plugin/door.ts'

/** What a caller may send ahead of the answer to its handshake; clients send nothing (RFC 6455, section 4.1). */
const MAX_EARLY_BYTES = 65_536

/**
 * A caller's connection that waits for the answer to its handshake. It is read meanwhile: of a connection that nobody reads
 * neither the end nor a reset is seen, and with it would stay its place at the seller's.
 */
export class WaitingUpgrade implements Upgrade {
  readonly socket: Duplex
  readonly #early = new Pieces()
  readonly #read = (piece: Buffer) => {
    if (this.#early.bytes + piece.length > MAX_EARLY_BYTES) this.socket.destroy()
    else this.#early.push(piece)
  }
  /** WebSockets know no half-open state. */
  readonly #leave = () => void this.socket.destroy()

  /** @param head what was read of it past the request's head */
  constructor(socket: Duplex, head: Buffer) {
    this.socket = socket
    socket.on('data', this.#read).on('end', this.#leave)
    if (head.length > 0) this.#read(head)
  }

  take(): Buffer {
    this.socket.off('data', this.#read).off('end', this.#leave).pause()
    return this.#early.join()
  }
}
