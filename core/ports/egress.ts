import type { Duplex } from 'node:stream'

/** One outgoing request with limited size and time, for probes, facilitators and webhooks. Calls of links use a pool instead. */
export interface EgressRequest {
  readonly url: string
  readonly method: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  readonly timeoutMs: number
  /** Maximum size of the response, in bytes. If the response is larger, the request is aborted and fails, unless `isCut` is set. */
  readonly maxBytes: number
  /**
   * If true and the response is larger than `maxBytes`, the request succeeds with the status and the first `maxBytes` bytes. The
   * rest is not read.
   */
  readonly isCut?: boolean
  /** Aborts the request, which then fails at once with `EGRESS_CLOSED`. */
  readonly signal?: AbortSignal
}

export interface EgressResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Uint8Array
}

/**
 * How an outgoing connection has failed. It is the `code` of every error of `request`, `pool` and `connect`.
 *
 * - REFUSED: an address is neither public nor on the operator's list.
 * - UNREACHABLE: the host has no address or no route, or nothing listens there.
 * - UNTRUSTED: the certificate is not valid.
 * - TIMEOUT: some phase was too slow.
 * - BROKEN: the connection ended before the response.
 * - BAD_ANSWER: the response is not well-formed HTTP, or has a wrong length.
 * - LARGE_HEAD: the head is larger than `MAX_ANSWER_HEAD_BYTES`.
 * - TOO_LARGE: the response is larger than `maxBytes`.
 * - BAD_REQUEST: the request itself cannot be sent.
 * - CLOSED: the caller has aborted the request, or {@link Egress.close} was called.
 */
export type EgressErrorCode =
  | 'EGRESS_REFUSED'
  | 'EGRESS_UNREACHABLE'
  | 'EGRESS_UNTRUSTED'
  | 'EGRESS_TIMEOUT'
  | 'EGRESS_BROKEN'
  | 'EGRESS_BAD_ANSWER'
  | 'EGRESS_LARGE_HEAD'
  | 'EGRESS_TOO_LARGE'
  | 'EGRESS_BAD_REQUEST'
  | 'EGRESS_CLOSED'

/**
 * Failure messages on which sellers and operators can act. The driver's own message is not shown, because it may contain an address
 * behind the host name.
 */
export const egressFailures: Readonly<Record<EgressErrorCode, string>> = {
  EGRESS_REFUSED:
    'The host has an address that is not public, and the gateway connects to public addresses only.',
  EGRESS_UNREACHABLE:
    'Cannot connect: the host does not exist, has no route, or does not listen on this port.',
  EGRESS_UNTRUSTED: "The host's TLS certificate is not valid.",
  EGRESS_TIMEOUT: 'The connection or the response took too long.',
  EGRESS_BROKEN: 'The connection broke before a response arrived.',
  EGRESS_BAD_ANSWER: 'The response is not well-formed HTTP.',
  EGRESS_LARGE_HEAD: 'The headers of the response are too large.',
  EGRESS_TOO_LARGE: 'The response is too large.',
  EGRESS_BAD_REQUEST: 'The request cannot be sent to this url.',
  EGRESS_CLOSED: 'The gateway is stopping.',
}

/** Whether the gateway itself can reach the internet. `unknown` if it attempted no connection recently. */
export type ConnectivityState = 'up' | 'down' | 'unknown'

/**
 * Outgoing connections to sellers' addresses. Every resolved address must be global unicast or on the operator's list. The gateway
 * connects to the address that it has checked, and checks again for every connection. It never follows redirects.
 */
export interface Egress {
  /**
   * Refuses a URL to which the gateway could never connect, because of its scheme, its credentials or a literal private address.
   *
   * @throws `VALIDATION_ERROR`
   */
  checkUrl(url: string): URL
  /**
   * Checks a URL that is stored and called later. Refuses a URL that {@link Egress.checkUrl} refuses, a name that currently
   * resolves to a forbidden address, and a port that web servers do not use.
   *
   * @throws `VALIDATION_ERROR`
   */
  judgeUrl(url: string): Promise<void>
  /**
   * Sends a request and returns the complete response, never decompressed. The error of a failed request has an
   * {@link EgressErrorCode} as `code`, or `VALIDATION_ERROR` if {@link Egress.checkUrl} refuses the URL. {@link Egress.failureOf}
   * classifies either error. `isUnsent` of the error is true if no part of the request was sent. The gateway sets `Host` and
   * `Accept-Encoding` itself, even if `headers` contains them.
   */
  request(request: EgressRequest): Promise<EgressResponse>
  /**
   * Keep-alive connections to one origin. Callers share the pool, which closes when the last of them releases it.
   *
   * @param use connections for `checks` are separate and as many as there are checks. Otherwise a check would have to wait for a
   *   seller's calls, or for the hanging checks of another seller at the same origin, and the seller would look unresponsive
   */
  pool(origin: string, use?: 'calls' | 'checks'): UpstreamPool
  /** Opens a raw connection for upgrades. For https and wss URLs, it returns after the TLS handshake. */
  connect(url: URL): Promise<Duplex>
  /**
   * Classifies an error that a pool passed to its handler. An unknown error is `EGRESS_BROKEN`. Log this code and its message
   * instead of the error, because the driver's message may contain the seller's bytes.
   */
  failureOf(error: unknown): EgressErrorCode
  /**
   * Estimates from the connections of the last 30 s whether the gateway can reach the internet. While the result is `down`, no link
   * is suspended.
   */
  connectivity(): ConnectivityState
  close(): Promise<void>
}

/** The methods of undici's dispatcher that the gateway uses. They are declared here so that core does not depend on undici. */
export interface UpstreamPool {
  /**
   * Maximum concurrent requests. For `calls`, the caller enforces the maximum, because the caller decides the order. `checks` have
   * no limit.
   */
  readonly connections: number
  /**
   * Sends the request. Returns false if the request waits for a connection. A waiting request has no controller yet, and only the
   * connection's time limit applies to it. The caller therefore measures the time itself, and aborts in `onRequestStart`.
   */
  dispatch(options: UpstreamRequest, handler: UpstreamHandler): boolean
  /** Releases the caller's share in the pool. */
  release(): void
}

export interface UpstreamRequest {
  readonly path: string
  readonly method: string
  readonly headers: readonly string[]
  readonly body: unknown
  readonly headersTimeout: number
  readonly bodyTimeout: number
  readonly upgrade?: string
  /** True to use the connection for this request only, and to send `Connection: close`. */
  readonly reset?: boolean
}

/**
 * The pool calls these methods as the response arrives. The controller pauses, resumes and aborts the response. The pool calls
 * `onResponseStart` for each interim response (1xx) too, and each of them restarts `headersTimeout`. The last call has a status of
 * 200 or above.
 */
export interface UpstreamHandler {
  onRequestStart(controller: UpstreamController): void
  onResponseStart(
    controller: UpstreamController,
    statusCode: number,
    headers: EgressResponse['headers'],
    statusMessage?: string,
  ): void
  /** @param chunk the pool reuses its memory once this returns, so a handler that keeps the chunk must copy it */
  onResponseData(controller: UpstreamController, chunk: Buffer): void
  onResponseEnd(controller: UpstreamController): void
  onResponseError(controller: UpstreamController | null, error: Error): void
  /** Required if the request has `upgrade`. The handler then owns the socket. */
  onRequestUpgrade?(
    controller: UpstreamController,
    statusCode: number,
    headers: EgressResponse['headers'],
    socket: Duplex,
  ): void
}

export interface UpstreamController {
  readonly rawHeaders?: readonly (Buffer | string)[] | null
  pause(): void
  resume(): void
  abort(reason: Error): void
}

/**
 * Maximum size of a response head, in bytes. Node's HTTP clients, including `fetch`, read no longer head. The gateway refuses a
 * longer head from a seller. If the gateway's own headers make a head too long, the buyer is not charged, because no client could
 * read the response.
 */
export const MAX_ANSWER_HEAD_BYTES = 16_384
