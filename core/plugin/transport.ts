import type { Duplex, Readable } from 'node:stream'
import type { Reply } from '../http/replies.ts'

/** The connection of a caller that requested a WebSocket. */
export interface Upgrade {
  /** The caller's socket. Until a plugin takes it, the transport reads it, and closes it when the caller disconnects. */
  readonly socket: Duplex
  /**
   * Passes the connection to the plugin that completes the handshake. Call it once.
   *
   * @returns the bytes that arrived before the response
   */
  take(): Buffer
}

/**
 * Receives a call and sends its response, over an HTTP connection, an MCP tool call or a page. A link has the same pipeline for
 * every transport. Most plugins use the exchange (`x.method`, `x.header()`, `x.readBody()`) and respond with a reply. Only plugins
 * that stream a response write to the transport.
 */
export interface Transport {
  /** HTTP method in capitals, as received, such as `GET`. */
  readonly method: string
  /** Id of the request in logs. The transport adds it as `X-Request-Id` to every response of {@link send} and {@link begin}. */
  readonly requestId: string
  /** Header names and values in turn, as received. */
  readonly rawHeaders: readonly string[]
  /**
   * @param name in any case. If several headers have the name, they are joined by a comma, or only the first counts (RFC 9110,
   *   section 5.3)
   */
  header(name: string): string | undefined
  /** The body as it arrives, which only its first reader gets. Null if the whole body is already in `x.body`. */
  readonly body: Readable | null
  /** The connection to upgrade. Null unless the caller requests a WebSocket over a transport that supports it. */
  readonly upgrade: Upgrade | null

  /** True if nothing more can reach the caller, because it has disconnected or has its response. */
  readonly isClosed: boolean
  /** @param listener called once when {@link isClosed} becomes true. Never called if it is already true */
  onClose(listener: () => void): void
  /** True if the caller disconnected or stopped reading before it had the response. False if this process ended the call. */
  readonly hasLeft: boolean
  /** True if the response is longer than the caller takes over this transport. The caller gets all of it by a repeat over HTTP. */
  readonly isTruncated: boolean
  /** True once the head of a response was sent, after which no other response can be sent. */
  readonly hasBegun: boolean
  /** True once the whole response was written. */
  readonly hasEnded: boolean
  /** True once the operating system has accepted all bytes of the response. */
  readonly isSent: boolean
  /**
   * Sends a complete response.
   *
   * @param extra further headers besides the reply's own, names and values in turn. Null for none
   * @returns false if the caller has disconnected, or another response has begun
   * @throws for a head that cannot be written
   */
  send(reply: Reply, extra: readonly string[] | null): boolean
  /** Begins a response that is sent in pieces. @param headers names and values in turn. The transport may keep this array */
  begin(status: number, headers: string[]): void
  /**
   * @param piece the next bytes. The caller may reuse their memory once this returns, because the transport does not keep the piece
   * @returns false if the caller reads too slowly. Wait for {@link onDrain} before the next piece
   */
  write(piece: Uint8Array): boolean
  /** @param listener called once, when the transport can accept more pieces */
  onDrain(listener: () => void): void
  /** @param last the last piece. A short response may consist of this piece only */
  end(last?: Uint8Array): void
  /** Breaks off the connection, so that the caller cannot mistake a partial response for a complete one. */
  cutOff(): void
  /** From now on, disconnects the caller if it reads nothing for `timeoutMs`. */
  limitIdle(timeoutMs: number): void
}
