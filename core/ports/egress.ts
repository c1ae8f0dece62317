import type { Duplex } from 'node:stream'

/** A bounded request for probes, facilitators and webhooks; proxying uses a pool. */
export interface EgressRequest {
  readonly url: string
  readonly method: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  readonly timeoutMs: number
  /** The answer is cut off, and the request fails, beyond this. */
  readonly maxBytes: number
  /** What is beyond `maxBytes` is not read, and the request does not fail for it: its status and first bytes are the answer. */
  readonly isCut?: boolean
  /** Aborted when nobody wants the answer any more: the request fails at once, with `EGRESS_CLOSED`. */
  readonly signal?: AbortSignal
}

export interface EgressAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Uint8Array
}

/**
 * How the way out failed: the `code` of every error that `request`, `pool` and `connect` report.
 *
 * REFUSED: an address is neither public nor on the operator's list. UNREACHABLE: no name, no route, or nobody listens.
 * UNTRUSTED: the certificate does not hold. TIMEOUT: too slow in any phase. BROKEN: the connection ended before the answer.
 * BAD_ANSWER: not well-formed HTTP, or a wrong length. LARGE_HEAD: a head beyond `MAX_ANSWER_HEAD_BYTES`. TOO_LARGE: beyond `maxBytes`. BAD_REQUEST: the
 * request itself can not be sent. CLOSED: after {@link Egress.close}, or aborted by its caller.
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

/** What sellers and operators can act on. Not the error's own message: it may name an address behind the host name. */
export const egressFailures: Readonly<Record<EgressErrorCode, string>> = {
  EGRESS_REFUSED:
    'The host has an address that is not public; the gateway connects to public addresses only.',
  EGRESS_UNREACHABLE: 'No connection: no such host, no route to it, or nothing listens there.',
  EGRESS_UNTRUSTED: "The host's TLS certificate is not valid.",
  EGRESS_TIMEOUT: 'The connection or the answer took too long.',
  EGRESS_BROKEN: 'The connection broke before an answer came.',
  EGRESS_BAD_ANSWER: 'The answer is not well-formed HTTP.',
  EGRESS_LARGE_HEAD: 'The headers of the answer are too large.',
  EGRESS_TOO_LARGE: 'The head of the answer is too large.',
  EGRESS_BAD_REQUEST: 'The request can not be sent to this url.',
  EGRESS_CLOSED: 'The gateway is stopping.',
}

/** Whether the gateway itself can reach the world; `unknown` when nothing was tried lately. */
export type WayOutState = 'up' | 'down' | 'unknown'

/**
 * The way out to sellers' addresses. Every resolved address must be global unicast or on the operator's list, and the
 * address that was checked is the one connected to, again on every connection. Redirects are never followed.
 */
export interface Egress {
  /** Refuses a URL that could never be connected to: scheme, credentials, a literal private address. @throws `VALIDATION_ERROR` */
  checkUrl(url: string): URL
  /**
   * Judges a URL that somebody wants stored and called later: what {@link Egress.checkUrl} refuses, a name that has an
   * address now to which no connection would be made, and a port that is not one of a web server.
   * @throws `VALIDATION_ERROR`
   */
  judgeUrl(url: string): Promise<void>
  /**
   * One whole answer; never decompressed. Fails with an error whose `code` is an {@link EgressErrorCode}, or, when
   * {@link Egress.checkUrl} refuses the URL, `VALIDATION_ERROR`; {@link Egress.failureOf} sorts both. The error's
   * `isUnsent` is true when nothing of the request has left, and never will.
   * `Host` and `Accept-Encoding` are set here, whatever `headers` say.
   */
  request(request: EgressRequest): Promise<EgressAnswer>
  /**
   * Keep-alive connections to one origin; shared, reference-counted, closed when nobody uses it.
   *
   * @param use `checks` takes connections of their own, as many as there are checks, so that neither a seller with many calls is
   * taken for a silent one, nor one who shares an origin with somebody whose checks hang
   */
  pool(origin: string, use?: 'calls' | 'checks'): UpstreamPool
  /** A raw connection (TLS done for https and wss), for upgrades. */
  connect(url: URL): Promise<Duplex>
  /**
   * Sorts an error that a pool's handler was given; anything unknown is `EGRESS_BROKEN`. Log this code and the message,
   * not the error: the driver's may hold the seller's bytes.
   */
  failureOf(error: unknown): EgressErrorCode
  /** A guess from the connections of the last 30 s; nobody is suspended while it is `down`. */
  wayOut(): WayOutState
  close(): Promise<void>
}

/** What undici's dispatcher offers, no more: the port keeps core free of the driver. */
export interface UpstreamPool {
  /**
   * How many requests there may be at once. For `calls` the caller sees to it, because it knows who goes first; `checks` have no
   * limit.
   */
  readonly connections: number
  /**
   * Sends the request; `false` says that it waits for a connection. A waiting request has no controller yet and no time limit
   * but the connection's: the caller keeps its own clock and aborts in `onRequestStart`.
   */
  dispatch(options: UpstreamRequest, handler: UpstreamHandler): boolean
  /** Gives the reference back. */
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
  /** The connection carries nothing after this request, and the request says so (`Connection: close`). */
  readonly reset?: boolean
}

/**
 * Called by the pool as the answer arrives. The controller pauses, resumes and aborts it. `onResponseStart` is called for
 * each interim answer (1xx) as well, and each restarts `headersTimeout`; the last call has a status of 200 or above.
 */
export interface UpstreamHandler {
  onRequestStart(controller: UpstreamController): void
  onResponseStart(
    controller: UpstreamController,
    statusCode: number,
    headers: EgressAnswer['headers'],
    statusMessage?: string,
  ): void
  /** @param chunk lent: other bytes are in its place when this returns, so that whoever keeps it copies it */
  onResponseData(controller: UpstreamController, chunk: Buffer): void
  onResponseEnd(controller: UpstreamController): void
  onResponseError(controller: UpstreamController | null, error: Error): void
  /** Needed when the request has `upgrade`. The socket then belongs to the handler. */
  onRequestUpgrade?(
    controller: UpstreamController,
    statusCode: number,
    headers: EgressAnswer['headers'],
    socket: Duplex,
  ): void
}

export interface UpstreamController {
  readonly rawHeaders?: readonly (Buffer | string)[] | null
  pause(): void
  resume(): void
  abort(reason: Error): void
}
