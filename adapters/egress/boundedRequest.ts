import type {
  EgressAnswer,
  EgressRequest,
  UpstreamController,
  UpstreamHandler,
  UpstreamPool,
} from '../../core/ports/egress.ts'
import { EgressError } from './egressError.ts'

/** CONNECT would open a tunnel, TRACE echoes what was sent. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
/** Decided here: Host by the URL that was checked, the rest by what this side can do with the answer. */
const ownHeaders = new Set([
  'host',
  'accept-encoding',
  'connection',
  'upgrade',
  'content-length',
  'transfer-encoding',
])

/**
 * Makes one request and collects its answer, bounded in time and size from every side.
 *
 * `identity` is asked for and nothing is ever decompressed: a seller who compresses all the same gets the compressed
 * bytes reported, so a gzip bomb is as small as it is on the wire. Redirects are answers like others.
 *
 * @param toEgressError gives whatever the driver reports its code
 */
export function boundedRequest(
  pool: UpstreamPool,
  url: URL,
  request: EgressRequest,
  toEgressError: (error: unknown) => EgressError,
): Promise<EgressAnswer> {
  if (!methods.has(request.method)) {
    throw new EgressError(
      'EGRESS_BAD_REQUEST',
      `Expected one of ${[...methods].join(', ')}, got "${request.method}".`,
    )
  }
  if (request.signal?.aborted) throw givenUp()
  const headers = ['accept-encoding', 'identity']
  for (const [name, value] of Object.entries(request.headers ?? {})) {
    if (!ownHeaders.has(name.toLowerCase())) headers.push(name, value)
  }
  return new Promise((resolve, reject) => {
    const collector = new AnswerCollector(url.host, request, (error, answer) => {
      if (answer !== undefined) return resolve(answer)
      const failure = toEgressError(error)
      failure.isUnsent = !collector.hasBegun
      reject(failure)
    })
    pool.dispatch(
      {
        path: url.pathname + url.search,
        method: request.method,
        headers,
        body: request.body ?? null,
        headersTimeout: request.timeoutMs,
        bodyTimeout: request.timeoutMs,
      },
      collector,
    )
  })
}

const givenUp = (): EgressError => new EgressError('EGRESS_CLOSED', 'The request was given up.')

class AnswerCollector implements UpstreamHandler {
  readonly #host: string
  readonly #maxBytes: number
  readonly #isCut: boolean
  readonly #settle: (error: unknown, answer?: EgressAnswer) => void
  readonly #timer: NodeJS.Timeout
  #controller: UpstreamController | undefined
  #failure: EgressError | undefined
  #status = 0
  #headers: EgressAnswer['headers'] = {}
  #chunks: Buffer[] = []
  #bytes = 0

  constructor(
    host: string,
    { timeoutMs, maxBytes, isCut = false, signal }: EgressRequest,
    settle: (error: unknown, answer?: EgressAnswer) => void,
  ) {
    this.#host = host
    this.#maxBytes = maxBytes
    this.#isCut = isCut
    this.#settle = (error, answer) => {
      signal?.removeEventListener('abort', aborted)
      settle(error, answer)
    }
    const aborted = () => this.#fail(givenUp())
    signal?.addEventListener('abort', aborted)
    // One clock for name, connection, queue, head and body: a seller can not stretch it by dripping bytes or 1xx heads.
    this.#timer = setTimeout(() => {
      this.#fail(new EgressError('EGRESS_TIMEOUT', `${host} did not answer in full within ${timeoutMs} ms.`))
    }, timeoutMs)
  }

  /** Whether it ever got a connection. */
  get hasBegun(): boolean {
    return this.#controller !== undefined
  }

  onRequestStart(controller: UpstreamController): void {
    // The driver can not cancel a request that still waits for its connection; it is stopped when it begins.
    this.#controller = controller
    if (this.#failure !== undefined) controller.abort(this.#failure)
  }

  onResponseStart(
    _controller: UpstreamController,
    statusCode: number,
    headers: EgressAnswer['headers'],
  ): void {
    if (statusCode < 200) return
    this.#status = statusCode
    this.#headers = headers
    const announced = Number(headers['content-length'] ?? 0)
    if (announced > this.#maxBytes && !this.#isCut) this.#failTooLarge()
  }

  onResponseData(_controller: UpstreamController, chunk: Buffer): void {
    if (this.#failure !== undefined) return
    this.#bytes += chunk.length
    this.#chunks.push(Buffer.from(chunk))
    if (this.#bytes <= this.#maxBytes) return
    if (this.#isCut) this.#cut()
    else this.#failTooLarge()
  }

  onResponseEnd(): void {
    if (this.#failure !== undefined) return
    clearTimeout(this.#timer)
    this.#answer()
  }

  onResponseError(_controller: UpstreamController | null, error: Error): void {
    clearTimeout(this.#timer)
    this.#chunks = []
    if (this.#failure === undefined) this.#settle(error)
  }

  #answer(): void {
    this.#settle(undefined, {
      status: this.#status,
      headers: this.#headers,
      body: Buffer.concat(this.#chunks).subarray(0, this.#maxBytes),
    })
  }

  /** The rest is nobody's: the connection ends with it. */
  #cut(): void {
    this.#failure = this.#tooLarge()
    clearTimeout(this.#timer)
    this.#answer()
    this.#chunks = []
    this.#controller?.abort(this.#failure)
  }

  #tooLarge(): EgressError {
    return new EgressError(
      'EGRESS_TOO_LARGE',
      `${this.#host} answered with more than ${this.#maxBytes} bytes.`,
    )
  }

  #failTooLarge(): void {
    this.#fail(this.#tooLarge())
  }

  #fail(error: EgressError): void {
    if (this.#failure !== undefined) return
    this.#failure = error
    clearTimeout(this.#timer)
    this.#chunks = []
    this.#settle(error)
    this.#controller?.abort(error)
  }
}
