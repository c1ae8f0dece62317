import type { Duplex, Readable } from 'node:stream'
import type { Reply } from './reply.ts'

/** The connection of a caller who asked for a WebSocket. */
export interface Upgrade {
  /** Read by the door until it is taken, so that its end is seen: it closes when the caller ends it. */
  readonly socket: Duplex
  /** Hands the connection over to whoever answers the handshake. Once. @returns what came on it ahead of the answer */
  take(): Buffer
}

/**
 * Where a call came in and its answer goes out: an HTTP connection, a tool call over MCP, a page. A link's program runs
 * behind any of them. Most plugins ask the exchange (`x.method`, `x.header()`, `x.readBody()`) and answer by a reply; only
 * what hands an answer over as it comes writes here.
 */
export interface Door {
  /** Such as `GET`; in capitals, as it came. */
  readonly method: string
  /** By which the request is found again. The door adds it, as `X-Request-Id`, to every answer of {@link send} and {@link begin}. */
  readonly requestId: string
  /** Names and values in turn, as they came. */
  readonly rawHeaders: readonly string[]
  /** @param name however it is written. Several of one name are joined by a comma, or only the first counts (RFC 9110, section 5.3). */
  header(name: string): string | undefined
  /** The body as it comes, for whoever reads it first; null where a body is whole already, as `x.body`. */
  readonly body: Readable | null
  /** Null unless the caller asks for a WebSocket through a door that can give it one. */
  readonly upgrade: Upgrade | null

  /** Nobody reads what would be written now: the caller has gone, or has the answer. */
  readonly isClosed: boolean
  /** @param listener called once when that happens; never when it had happened before */
  onClose(listener: () => void): void
  /** The caller hung up, or stopped reading, before it had the answer; false where this process broke the call off. */
  readonly hasLeft: boolean
  /** The head of an answer was sent: no other one can be given. */
  readonly hasBegun: boolean
  /** The answer was written to its end. */
  readonly hasEnded: boolean
  /** All of the answer was handed to the network. */
  readonly isSent: boolean
  /**
   * Answers whole.
   * @param extra flat headers beside the reply's own; null for none
   * @returns false when nobody is there to read it, or another answer has begun
   * @throws for a head that can't be written
   */
  send(reply: Reply, extra: readonly string[] | null): boolean
  /** Begins an answer that comes in pieces. @param headers flat; the door may keep the list */
  begin(status: number, headers: string[]): void
  /**
   * @param piece lent: somebody else's again when it returns
   * @returns false when the caller reads too slowly for more: wait for {@link onDrain}
   */
  write(piece: Uint8Array): boolean
  /** @param listener called once, when the caller has read on */
  onDrain(listener: () => void): void
  /** @param last the last piece, which is the only one of a short answer */
  end(last?: Uint8Array): void
  /** Breaks off, so that what was sent can't pass for the whole. */
  cutOff(): void
  /** From now on, cuts off a caller who takes nothing for so long. */
  limitIdle(timeoutMs: number): void
}
