import type {
  EgressRequest,
  EgressResponse,
  UpstreamController,
  UpstreamHandler,
  UpstreamPool,
} from '../../core/ports/egress.ts'
import { EgressError } from './errors.ts'

/** The methods leave out CONNECT, which would open a tunnel, and TRACE, which echoes the request. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
/**
 * Headers that this client sets itself. Host comes from the checked URL. The other headers depend on the responses that this client
 * can read.
 */
const ownHeaders = new Set([
  'host',
  'accept-encoding',
  'connection',
  'upgrade',
  'content-length',
  'transfer-encoding',
])

/**
 * Makes one request and collects its response, with limits on every time and size. It requests the encoding `identity` and never
 * decompresses. If a seller compresses anyway, the function returns the compressed bytes, so a gzip bomb stays small. It does not
 * follow redirects, but returns them like other responses.
 *
 * @param toEgressError converts any error of the driver to the port's errors
 */
export function boundedRequest(
  pool: UpstreamPool,
  url: URL,
  request: EgressRequest,
  toEgressError: (error: unknown) => EgressError,
): Promise<EgressResponse> {
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
    const collector = new ResponseCollector(url.host, request, (error, response) => {
      if (response !== undefined) return resolve(response)
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

const givenUp = (): EgressError => new EgressError('EGRESS_CLOSED', 'The request was aborted.')

class ResponseCollector implements UpstreamHandler {
  readonly #host: string
  readonly #maxBytes: number
  readonly #isCut: boolean
  readonly #settle: (error: unknown, response?: EgressResponse) => void
  readonly #timer: NodeJS.Timeout
  #controller: UpstreamController | undefined
  #failure: EgressError | undefined
  #status = 0
  #headers: EgressResponse['headers'] = {}
  #chunks: Buffer[] = []
  #bytes = 0

  constructor(
    host: string,
    { timeoutMs, maxBytes, isCut = false, signal }: EgressRequest,
    settle: (error: unknown, response?: EgressResponse) => void,
  ) {
    this.#host = host
    this.#maxBytes = maxBytes
    this.#isCut = isCut
    this.#settle = (error, response) => {
      signal?.removeEventListener('abort', aborted)
      settle(error, response)
    }
    const aborted = () => this.#fail(givenUp())
    signal?.addEventListener('abort', aborted)
    // One timer limits name, connection, queue, head and body together, so that a seller cannot extend the time by sending single
    // bytes or interim responses.
    this.#timer = setTimeout(() => {
      this.#fail(
        new EgressError('EGRESS_TIMEOUT', `${host} did not respond completely within ${timeoutMs} ms.`),
      )
    }, timeoutMs)
  }

  /** Whether the request has had a connection. */
  get hasBegun(): boolean {
    return this.#controller !== undefined
  }

  onRequestStart(controller: UpstreamController): void {
    // The driver cannot cancel a request that still waits for its connection, so this line stops the request when it begins.
    this.#controller = controller
    if (this.#failure !== undefined) controller.abort(this.#failure)
  }

  onResponseStart(
    _controller: UpstreamController,
    statusCode: number,
    headers: EgressResponse['headers'],
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
    this.#respond()
  }

  onResponseError(_controller: UpstreamController | null, error: Error): void {
    clearTimeout(this.#timer)
    this.#chunks = []
    if (this.#failure === undefined) this.#settle(error)
  }

  #respond(): void {
    this.#settle(undefined, {
      status: this.#status,
      headers: this.#headers,
      body: Buffer.concat(this.#chunks).subarray(0, this.#maxBytes),
    })
  }

  /** Discards the rest of the body by closing the connection. */
  #cut(): void {
    this.#failure = this.#tooLarge()
    clearTimeout(this.#timer)
    this.#respond()
    this.#chunks = []
    this.#controller?.abort(this.#failure)
  }

  #tooLarge(): EgressError {
    return new EgressError(
      'EGRESS_TOO_LARGE',
      `${this.#host} responded with more than ${this.#maxBytes} bytes.`,
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
