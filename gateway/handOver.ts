import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { createProxyServer } from 'http-proxy-3'
import { TollgateError } from '../core/errors/error.ts'
import { errorReply } from '../core/http/errorReply.ts'
import type { Log } from '../core/ports/log.ts'
import { send } from './httpDoor.ts'

/** Hands everything that is not a call of a link to the admin API's listener, so that there is one base URL. */
export interface HandOver {
  /** @param requestId which the admin API takes for the request's, and says in its answer */
  web(req: IncomingMessage, res: ServerResponse, clientIp: string, requestId: string): void
  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer, clientIp: string, requestId: string): void
  close(): void
}

/** What a caller may say about where it comes from and what it asked for; only the gateway knows. */
const claims = ['forwarded', 'x-real-ip', 'x-forwarded-host', 'x-forwarded-proto', 'x-forwarded-port']

/** What is between the caller and the gateway (RFC 9110, section 7.6.1); the library hands it on. */
const ownConnection = ['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'upgrade']

/** @param target such as `http://127.0.0.1:8081`, for a request's target; a function, because the port may be chosen by the system */
export function createHandOver(target: (url: string) => string, timeoutMs: number, log: Log): HandOver {
  const proxy = createProxyServer({ proxyTimeout: timeoutMs, xfwd: false })
  const away = (res: ServerResponse, requestId: string) => {
    // Half an answer is cut, not ended: it must not pass for a whole one.
    if (res.headersSent) return void res.destroy()
    const error = new TollgateError('INTERNAL_ERROR', 'The admin API is not answering.')
    send(res, { ...errorReply(error, log, requestId).reply, status: 502 }, null, requestId)
  }
  /** Whose answer has begun: what fails afterwards is the sending of the rest of the request, which nobody needs. */
  const answered = new WeakSet<object>()
  proxy.on('error', (err, req, res) => {
    if (res !== undefined && answered.has(res)) return
    const requestId = req.headers['x-request-id'] as string
    log.warn({ err, requestId }, 'the admin API did not answer')
    if (res === undefined) return
    if ('writeHead' in res) away(res as ServerResponse, requestId)
    else res.destroy()
  })
  proxy.on('proxyRes', (proxyRes, req, res) => {
    answered.add(res)
    // An answer ahead of the body, such as 401 or 413, is the answer. Nobody reads the rest of the body, however long it is.
    const isEarly = !req.complete
    if (isEarly) {
      res.shouldKeepAlive = false
      req.unpipe()
      req.resume()
    }
    // Each connection's end is the matter of its two sides (RFC 9110, section 7.6.1).
    delete proxyRes.headers['keep-alive']
    proxyRes.headers['connection'] = res.shouldKeepAlive ? 'keep-alive' : 'close'
    proxyRes.once('close', () => {
      // The library pipes, and a pipe leaves its end open when the source breaks off.
      if (!proxyRes.complete) res.destroy()
      // Node's client would keep it for a request that is never sent to its end.
      if (isEarly) proxyRes.socket.destroy()
    })
  })
  // The caller's own word about where it comes from is replaced, never extended.
  const mark = (req: IncomingMessage, clientIp: string, requestId: string) => {
    req.headers['x-forwarded-for'] = clientIp
    req.headers['x-request-id'] = requestId
    for (const name of claims) delete req.headers[name]
  }
  // The library states length 0 for a DELETE or OPTIONS in chunks and sends the body all the same, which would then be read
  // as another request, one that the caller wrote.
  proxy.before('web', 'timeout', (req) => {
    if (!isChunked(req)) return
    delete req.headers['content-length']
    req.headers['transfer-encoding'] = 'chunked'
  })
  return {
    web(req, res, clientIp, requestId) {
      mark(req, clientIp, requestId)
      for (const name of ownConnection) delete req.headers[name]
      proxy.web(req, res, { target: target(req.url!) })
    },
    upgrade(req, socket, head, clientIp, requestId) {
      mark(req, clientIp, requestId)
      socket.on('error', () => socket.destroy())
      proxy.ws(req, socket as never, head, { target: target(req.url!) })
    },
    close: () => proxy.close(),
  }
}

/** As it came: the one form that `readHead` lets through. */
const isChunked = ({ rawHeaders }: IncomingMessage): boolean =>
  rawHeaders.some((name, i) => i % 2 === 0 && name.toLowerCase() === 'transfer-encoding')
