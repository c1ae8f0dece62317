import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { createProxyServer } from 'http-proxy-3'
import { TollgateError } from '../core/errors/error.ts'
import { errorReply } from '../core/http/replies.ts'
import type { Log } from '../core/ports/log.ts'
import { send } from './httpTransport.ts'

/**
 * Forwards every request that is not a call of a link to the admin API's listener, so that calls and admin API have the same base
 * URL.
 */
export interface Forwarder {
  /** @param requestId id that the admin API uses for the request, and returns in its response */
  web(req: IncomingMessage, res: ServerResponse, clientIp: string, requestId: string): void
  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer, clientIp: string, requestId: string): void
  close(): void
}

/** Headers in which a caller may claim its origin and what it requested. The gateway removes them, and sets headers of its own. */
const claims = ['forwarded', 'x-real-ip', 'x-forwarded-host', 'x-forwarded-proto', 'x-forwarded-port']

/**
 * Headers that concern only the connection between the caller and the gateway (RFC 9110, section 7.6.1). The proxy library would
 * forward them.
 */
const ownConnection = ['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'upgrade']

export class AdminForwarder implements Forwarder {
  readonly #target: (url: string) => string
  readonly #log: Log
  readonly #proxy
  /**
   * Responses whose head has arrived from the admin API. A later error is not logged, because it only means that the rest of the
   * body could not be sent, which does not concern the admin API.
   */
  readonly #answered = new WeakSet<object>()

  /**
   * @param target makes the target URL of a request, such as `http://127.0.0.1:8081`. It is a function, because the system may
   *   choose the port
   */
  constructor(target: (url: string) => string, timeoutMs: number, log: Log) {
    this.#target = target
    this.#log = log
    this.#proxy = createProxyServer({ proxyTimeout: timeoutMs, xfwd: false })
    this.#proxy.on('error', (err, req, res) => {
      if (res !== undefined && this.#answered.has(res)) return
      const requestId = req.headers['x-request-id'] as string
      log.warn({ err, requestId }, 'the admin API did not respond')
      if (res === undefined) return
      if ('writeHead' in res) this.#unavailable(res as ServerResponse, requestId)
      else res.destroy()
    })
    this.#proxy.on('proxyRes', (proxyRes, req, res) => this.#onResponse(proxyRes, req, res))
    // For a chunked DELETE or OPTIONS request, the library states length 0 and sends the body anyway. The admin API would read that
    // body as another request, which the caller could forge.
    this.#proxy.before('web', 'timeout', (req) => {
      if (!isChunked(req)) return
      delete req.headers['content-length']
      req.headers['transfer-encoding'] = 'chunked'
    })
  }

  web(req: IncomingMessage, res: ServerResponse, clientIp: string, requestId: string): void {
    mark(req, clientIp, requestId)
    for (const name of ownConnection) delete req.headers[name]
    this.#proxy.web(req, res, { target: this.#target(req.url!) })
  }

  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer, clientIp: string, requestId: string): void {
    mark(req, clientIp, requestId)
    socket.on('error', () => socket.destroy())
    this.#proxy.ws(req, socket as never, head, { target: this.#target(req.url!) })
  }

  close(): void {
    this.#proxy.close()
  }

  #unavailable(res: ServerResponse, requestId: string): void {
    // The gateway cuts off half a response instead of ending it, so that the caller does not mistake it for a complete one.
    if (res.headersSent) return void res.destroy()
    const error = new TollgateError('INTERNAL_ERROR', 'The admin API is not responding.')
    send(res, { ...errorReply(error, this.#log, requestId).reply, status: 502 }, null, requestId)
  }

  #onResponse(proxyRes: IncomingMessage, req: IncomingMessage, res: ServerResponse): void {
    this.#answered.add(res)
    // A response that comes before the end of the request's body, such as 401 or 413, is final. The gateway discards the rest of
    // the body, at any length.
    const isEarly = !req.complete
    if (isEarly) {
      res.shouldKeepAlive = false
      req.unpipe()
      req.resume()
    }
    // Keep-alive headers concern only one connection (RFC 9110, section 7.6.1).
    delete proxyRes.headers['keep-alive']
    proxyRes.headers['connection'] = res.shouldKeepAlive ? 'keep-alive' : 'close'
    proxyRes.once('close', () => {
      // The library pipes the response, and a pipe does not end when its source is aborted.
      if (!proxyRes.complete) res.destroy()
      // Otherwise Node's client would keep the connection, because the body of its request is never completed.
      if (isEarly) proxyRes.socket.destroy()
    })
  }
}

/** Replaces or removes the headers in which the caller claims its origin. The gateway never appends to them. */
function mark(req: IncomingMessage, clientIp: string, requestId: string): void {
  req.headers['x-forwarded-for'] = clientIp
  req.headers['x-request-id'] = requestId
  for (const name of claims) delete req.headers[name]
}

/** Whether the body is chunked. The raw header is compared, in the only form that `readHead` accepts. */
const isChunked = ({ rawHeaders }: IncomingMessage): boolean =>
  rawHeaders.some((name, i) => i % 2 === 0 && name.toLowerCase() === 'transfer-encoding')
