import { TollgateError } from '../core/errors/error.ts'
import type { Reply } from '../core/http/replies.ts'
import type { Transport } from '../core/plugin/transport.ts'
import type { LinkCall, LinkCalls, LinkResponse } from '../core/ports/linkCalls.ts'
import { parseTarget } from './head.ts'
import type { Router } from './router.ts'

/**
 * Maximum redirects followed for one call. A link's former address leads to its current address. If the link moves again meanwhile,
 * that address leads to another one.
 */
const MAX_MOVES = 2
/** RFC 9110, sections 5.1 and 5.5. */
const headerName = /^[\w!#$%&'*+.^`|~-]{1,256}$/
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/
const methodForm = /^[A-Z]{1,32}$/

/**
 * Calls links through a {@link Router}. The pipelines cannot distinguish these calls from calls of the public listener.
 *
 * @param maxHeaderBytes maximum size of the head, as for the listener. A seller may close the connection if the head is larger, and
 *   the gateway would count that as the seller's fault
 */
export function createLinkCalls(router: Router, maxHeaderBytes: number): LinkCalls {
  async function call(request: LinkCall, moves: number): Promise<LinkResponse | undefined> {
    const { target: url, signal, payment, body, clientIp } = request
    const target = parseTarget(url)
    if (typeof target === 'string') throw new TollgateError('bad_request', target)
    const length = body === null ? [] : ['Content-Length', String(body.length)]
    const transport = new HeldTransport({ ...request, headers: [...request.headers, ...length] })
    if (signal.aborted) return undefined
    const abort = () => transport.abort()
    signal.addEventListener('abort', abort, { once: true })
    const head = {
      paymentHeader: payment?.header ?? null,
      x402Version: payment?.x402Version ?? 2,
      passed: null,
      hasBody: body !== null && body.length > 0,
      hasOrigin: false,
    } as const
    let movedTo: string | undefined
    const onMoved = (present: string) => {
      movedTo = present
      transport.abort()
    }
    if (target === undefined) router.notFound({ transport, head })
    else
      router.route({
        transport,
        head,
        target,
        url,
        clientIp,
        ...(body !== null && { body }),
        ...(moves < MAX_MOVES && { onMoved }),
      })
    const response = await transport.response
    signal.removeEventListener('abort', abort)
    return movedTo === undefined ? response : call({ ...request, target: movedTo }, moves + 1)
  }

  return {
    async call(request) {
      assertHead(request, maxHeaderBytes)
      return call(request, 0)
    },
  }
}

function assertHead({ method, target, headers, payment }: LinkCall, maxBytes: number): void {
  const parts = [method, target, ...headers, payment?.header ?? '']
  // Size of the head on the wire: each name and value with its two separators.
  const bytes = parts.reduce((sum, part) => sum + part.length + 2, 0)
  if (bytes > maxBytes)
    throw new TollgateError(
      'bad_request',
      `Expected path, query and headers of at most ${maxBytes} bytes, got ${bytes}.`,
    )
  if (!methodForm.test(method) || method === 'CONNECT' || method === 'TRACE')
    throw new TollgateError('bad_request', 'Expected a method such as GET or POST.')
  for (const [i, text] of headers.entries()) {
    if (i % 2 === 0 && !headerName.test(text))
      throw new TollgateError(
        'bad_request',
        'Expected names of headers to be tokens (RFC 9110, section 5.1).',
      )
    if (i % 2 === 1 && !headerValue.test(text))
      throw new TollgateError(
        'bad_request',
        'Expected values of headers without line ends and control characters.',
      )
  }
}

/**
 * A call without a connection. Its request is complete from the start, and it buffers the response until the response is complete.
 * The pipeline treats the call as disconnected if its caller stops waiting, or if the response is larger than requested.
 */
class HeldTransport implements Transport {
  readonly method: string
  readonly requestId: string
  readonly rawHeaders: readonly string[]
  readonly body = null
  readonly upgrade = null
  isClosed = false
  hasLeft = false
  isTruncated = false
  hasBegun = false
  hasEnded = false
  /** Resolves once, with the response or its requested part, or with undefined if there is none. */
  readonly response: Promise<LinkResponse | undefined>
  readonly #maxBytes: number
  readonly #pieces: Buffer[] = []
  #bytes = 0
  #status = 0
  #headers: readonly string[] = []
  readonly #settle: (response: LinkResponse | undefined) => void
  readonly #closeListeners: (() => void)[] = []

  constructor({
    method,
    requestId,
    headers,
    maxResponseBytes,
  }: Pick<LinkCall, 'method' | 'requestId' | 'headers' | 'maxResponseBytes'>) {
    this.method = method
    this.requestId = requestId
    this.rawHeaders = headers
    this.#maxBytes = maxResponseBytes
    const { promise, resolve } = Promise.withResolvers<LinkResponse | undefined>()
    this.response = promise
    this.#settle = resolve
  }

  header(name: string): string | undefined {
    const wanted = name.toLowerCase()
    const values = this.rawHeaders.filter((_, i) => i % 2 === 1 && this.#nameBefore(i) === wanted)
    return values.length === 0 ? undefined : values.join(', ')
  }

  #nameBefore(i: number): string {
    return this.rawHeaders[i - 1]!.toLowerCase()
  }

  get isSent(): boolean {
    return this.hasEnded
  }

  onClose(listener: () => void): void {
    if (!this.isClosed) this.#closeListeners.push(listener)
  }

  /** Memory accepts every piece at once, so there is nothing to wait for. */
  onDrain(listener: () => void): void {
    queueMicrotask(listener)
  }

  send({ status, headers, body }: Reply, extra: readonly string[] | null): boolean {
    if (this.hasBegun || this.isClosed) return false
    this.begin(status, [...headers, ...(extra ?? [])])
    if (typeof body === 'string') this.#take(Buffer.from(body, 'latin1'))
    else if (body instanceof Uint8Array) this.#take(body)
    else for (const piece of body ?? []) this.#take(piece)
    this.end()
    return this.hasEnded
  }

  begin(status: number, headers: readonly string[]): void {
    if (!Number.isInteger(status) || status < 200 || status > 599) throw new Error(`no status: ${status}`)
    this.hasBegun = true
    this.#status = status
    this.#headers = [...headers, 'X-Request-Id', this.requestId]
  }

  write(piece: Uint8Array): boolean {
    this.#take(piece)
    return true
  }

  end(last?: Uint8Array): void {
    if (last !== undefined) this.#take(last)
    if (this.isClosed) return
    this.hasEnded = true
    this.#conclude(this.#held(true))
  }

  cutOff(): void {
    this.#conclude(undefined)
  }

  /** Called when the caller no longer waits. */
  abort(): void {
    if (!this.isClosed) this.hasLeft = true
    this.#conclude(undefined)
  }

  limitIdle(): void {}

  #take(piece: Uint8Array): void {
    if (this.isClosed) return
    const room = this.#maxBytes - this.#bytes
    // Copied, because the pipeline may reuse the seller's bytes once they are written.
    this.#pieces.push(Buffer.from(piece.subarray(0, room)))
    this.#bytes += Math.min(room, piece.length)
    if (piece.length <= room) return
    this.isTruncated = true
    this.#conclude(this.#held(false))
  }

  #held(isWhole: boolean): LinkResponse {
    return { status: this.#status, headers: this.#headers, body: Buffer.concat(this.#pieces), isWhole }
  }

  #conclude(response: LinkResponse | undefined): void {
    if (this.isClosed) return
    this.isClosed = true
    this.#settle(response)
    for (const listener of this.#closeListeners.splice(0)) listener()
  }
}
