import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { TollgateError } from '../core/errors/error.ts'
import { lingerOnClose } from '../core/http/lingeringClose.ts'
import { errorReply } from '../core/http/replies.ts'
import type { Generation } from '../core/kernel/generation.ts'
import { failureReceipt, unread } from '../core/offers/refusedPayment.ts'
import type { LinkCalls } from '../core/ports/linkCalls.ts'
import type { Forwarder } from './adminForwarder.ts'
import type { AccessLogOptions } from './call.ts'
import { CallPlane, type CallPlaneDeps, stopping } from './callPlane.ts'
import { Connections, MAX_WAITING_REQUESTS, refuseSocket, responseUnderWay } from './connections.ts'
import { corsHeaders } from './cors.ts'
import { createClientIp, type HeadFacts, linkPrefix, parseTarget, pathProblem, readHead } from './head.ts'
import { HttpTransport, send, sendOnSocket, WaitingUpgrade } from './httpTransport.ts'

export interface GatewayOptions {
  readonly headersTimeoutMs: number
  readonly requestTimeoutMs: number
  readonly callTimeoutMs: number
  readonly keepAliveTimeoutMs: number
  readonly drainTimeoutMs: number
  readonly maxHeaderBytes: number
  readonly trustedProxyCidrs: readonly string[]
  readonly accessLog: AccessLogOptions
}

export interface GatewayDeps extends CallPlaneDeps {
  readonly forwarder: Forwarder
}

/**
 * How long a stopping gateway keeps idle connections, in ms. A request that arrives meanwhile gets a response, with a header that
 * announces the end of the connection.
 */
const NOTICE_MS = 250
/** Pause between two sweeps for idle connections while the gateway drains, in ms. */
const SWEEP_MS = 50
/**
 * How long calls may still write to the ledger after the gateway has cut their connections, in ms. Recovery finishes the payments
 * of the others.
 */
const FINAL_WRITES_MS = 1_000
/**
 * Pause between Node's checks for late heads and requests, in ms. Node's default pause of 30 s would add up to 30 s to every limit.
 */
const CHECK_MS = 1_000

/** The data plane: one public listener that runs calls of links and forwards all other requests to the admin API. */
export class Gateway {
  readonly #deps: GatewayDeps
  readonly #options: GatewayOptions
  readonly #clientIpOf: (req: IncomingMessage) => string
  readonly #calls: CallPlane
  readonly #connections: Connections
  readonly #server: Server
  #isDraining = false

  constructor(first: Generation, deps: GatewayDeps, options: GatewayOptions) {
    this.#deps = deps
    this.#options = options
    this.#clientIpOf = createClientIp(options.trustedProxyCidrs, deps.log)
    this.#calls = new CallPlane(first, deps, options)
    const connections = new Connections(this.#calls.accessLog)
    this.#connections = connections
    const onRequest = (req: IncomingMessage, res: ServerResponse) => this.#onRequest(req, res)
    const server = createServer(
      {
        maxHeaderSize: options.maxHeaderBytes,
        headersTimeout: options.headersTimeoutMs,
        requestTimeout: options.requestTimeoutMs,
        keepAliveTimeout: options.keepAliveTimeoutMs,
        connectionsCheckingInterval: CHECK_MS,
        // Node's own response does not name the reason. `readHead` refuses a request without a Host header, and its response does.
        requireHostHeader: false,
        // Only WebSockets are upgraded. A request with `Upgrade: h2c` or another value is an ordinary request, and Node drops the
        // bytes after it in the same packet. These bytes are no lost request, because a client that offers HTTP/2 waits for the
        // response (RFC 7540, section 3.2).
        shouldUpgradeCallback: (req) => isWebSocket(req) && connections.mayUpgrade(req),
      },
      onRequest,
    )
    this.#server = server
    lingerOnClose(server)
    server.on('connection', (socket) => connections.add(socket))
    server.on('checkContinue', onRequest)
    server.on('upgrade', (req, socket, rest) => this.#onUpgrade(req, socket, rest))
    server.on('connect', (_req, socket) => this.#onConnect(socket))
    server.on('clientError', (error, socket) => connections.broken(error, socket))
  }

  /** Calls links over other transports, through the same pipelines. */
  get linkCalls(): LinkCalls {
    return this.#calls.linkCalls
  }

  /** Counts and generation of the calls over every transport. */
  get calls(): Pick<CallPlane, 'counts' | 'generation'> {
    return this.#calls
  }

  listen(port: number, host: string): Promise<AddressInfo> {
    const server = this.#server
    return new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, 4096, () => {
        server.off('error', reject)
        resolve(server.address() as AddressInfo)
      })
    })
  }

  /** Makes another generation serve all new calls. `retired` resolves when the last call of the old generation has ended. */
  swap(generation: Generation): Promise<{ readonly retired: Promise<void> }> {
    return this.#calls.swap(generation)
  }

  /**
   * Stops accepting connections, and announces the end of each connection in its response. Running calls may end within the drain
   * time. After that, the gateway cuts the rest.
   */
  async close(): Promise<void> {
    const server = this.#server
    const connections = this.#connections
    this.#isDraining = true
    connections.endAll()
    const { promise: isCut, resolve: cut } = Promise.withResolvers<void>()
    const deadline = setTimeout(() => {
      this.#calls.cutOff()
      connections.destroyAll()
      cut()
    }, this.#options.drainTimeoutMs)
    // If the gateway closed idle connections at once, it would reset requests that are sent but not read yet.
    let mayCloseIdle = false
    const closeIdle = server.closeIdleConnections.bind(server)
    server.closeIdleConnections = () => {
      if (mayCloseIdle) connections.closeIdle(closeIdle)
    }
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MS)
    const notice = setTimeout(() => {
      mayCloseIdle = true
    }, NOTICE_MS)
    await closed
    clearTimeout(notice)
    clearInterval(sweep)
    this.#deps.forwarder.close()
    const drainTimeout = new AbortController()
    const givenUp = isCut.then(() => sleep(FINAL_WRITES_MS, undefined, { signal: drainTimeout.signal }))
    await Promise.race([this.#calls.close(), givenUp])
    drainTimeout.abort()
    givenUp.catch(() => undefined)
    clearTimeout(deadline)
  }

  #onRequest(req: IncomingMessage, res: ServerResponse): void {
    const connections = this.#connections
    const head = readHead(req)
    if (head.problem !== null) return this.#refuse(req, res, head.problem, head)
    // A response has no socket while it waits behind an earlier response of its connection.
    if (res.socket === null) {
      if (connections.isEarlyHandshake(req))
        return this.#refuse(req, res, 'Expected no upgrade before the responses to earlier requests.', head)
      if (!connections.mayWait(req.socket, res)) {
        const problem = `At most ${MAX_WAITING_REQUESTS} requests may wait on one connection.`
        return this.#refuse(req, res, problem, head)
      }
    }
    // With `Expect`, the gateway cannot know whether the caller will send the body, so no further request can follow on the
    // connection.
    if (this.#isDraining || head.expectsContinue) connections.endAfter(req.socket, res)
    const url = req.url!
    if (!url.startsWith(linkPrefix)) return this.#forward(req, res, head)
    const target = parseTarget(url)
    if (typeof target === 'string') return this.#refuse(req, res, target, head)
    if (head.hasBody) res.once('finish', () => discardRest(req))
    const transport = new HttpTransport(req, res, null, head.requestId)
    const { router } = this.#calls
    if (target === undefined) return router.notFound({ transport, head })
    const waiting = head.expectsContinue ? transport : undefined
    router.route({ transport, head, target, url, clientIp: this.#clientIpOf(req), waiting })
  }

  #forward(req: IncomingMessage, res: ServerResponse, head: HeadFacts): void {
    const problem = otherPathProblem(req.url!)
    if (problem !== undefined) return this.#refuse(req, res, problem, head)
    const forward = () => {
      if (head.expectsContinue) res.writeContinue()
      this.#deps.forwarder.web(req, res, this.#clientIpOf(req), head.requestId)
    }
    // The gateway sends each request to the admin API over its own connection, and the admin API responds at once. If the caller
    // does not read earlier responses, the admin API's responses would accumulate here. The gateway therefore forwards the request
    // when its response is the next one.
    if (res.socket === null) res.once('socket', forward)
    else forward()
  }

  #onConnect(socket: Duplex): void {
    socket.on('error', () => socket.destroy())
    // The caller would mistake the refusal for the pending response.
    if (responseUnderWay(socket) !== undefined) return void socket.destroy()
    const message = 'Method CONNECT is not served here.'
    refuseSocket(socket, this.#calls.accessLog, '400 Bad Request', 'bad_request', message)
  }

  #onUpgrade(req: IncomingMessage, socket: Duplex, rest: Buffer): void {
    const { router, accessLog } = this.#calls
    // Node removes its handlers from an upgraded socket. Without a handler, a reset would end the process.
    socket.on('error', () => socket.destroy())
    const res = new ServerResponse(req)
    const head = readHead(req)
    const { requestId } = head
    const refuse = (error: TollgateError) => {
      const { reply, code } = errorReply(error, this.#deps.log, requestId)
      sendOnSocket(res, socket, reply, null, requestId)
      accessLog.unrouted({ requestId, method: req.method, status: reply.status, code })
    }
    const refuseUpgrade = (problem: string) => refuse(new TollgateError('bad_request', problem))
    // Otherwise the gateway would charge the call, and abort it at the end of the drain time.
    if (this.#isDraining) return refuse(stopping())
    if (head.problem !== null) return refuseUpgrade(head.problem)
    // A handshake has no body (RFC 6455, section 4.1). The seller would read a body as the first frames.
    if (req.method !== 'GET' || head.hasBody)
      return refuseUpgrade('Expected an upgrade by GET without a body.')
    const url = req.url!
    if (!url.startsWith(linkPrefix)) {
      const problem = otherPathProblem(url)
      if (problem !== undefined) return refuseUpgrade(problem)
      return this.#deps.forwarder.upgrade(req, socket, rest, this.#clientIpOf(req), requestId)
    }
    const target = parseTarget(url)
    if (typeof target === 'string') return refuseUpgrade(target)
    const transport = new HttpTransport(req, res, new WaitingUpgrade(socket, rest), requestId)
    if (target === undefined) return router.notFound({ transport, head })
    router.route({ transport, head, target, url, clientIp: this.#clientIpOf(req) })
  }

  #refuse(req: IncomingMessage, res: ServerResponse, problem: string, head: HeadFacts): void {
    this.#connections.endRefused(req, res)
    const error = new TollgateError('bad_request', problem)
    const { requestId, paymentHeader } = head
    const { reply, code } = errorReply(error, this.#deps.log, requestId)
    const isPresented = paymentHeader !== null
    this.#calls.accessLog.unrouted({
      requestId,
      method: req.method,
      status: reply.status,
      code,
      isPresented,
    })
    if (!req.url!.startsWith(linkPrefix)) return void send(res, reply, null, requestId)
    const network = this.#deps.chains.assets[0]?.network
    const receipt = isPresented ? failureReceipt(unread(head.x402Version), error, 400, network) : []
    send(res, reply, head.hasOrigin ? [...corsHeaders, ...receipt] : receipt, requestId)
  }
}

/**
 * Discards the rest of a body after its response, because the next request of the connection follows the body. Node does this only
 * if no plugin had begun to read the body.
 */
function discardRest(req: IncomingMessage): void {
  if (!req.complete) req.unpipe().resume()
}

const isWebSocket = ({ headers }: IncomingMessage): boolean => headers.upgrade?.toLowerCase() === 'websocket'

/** Why the gateway cannot forward a request that is not a call. Undefined if it can (RFC 9112, section 3.2, origin form). */
function otherPathProblem(url: string): string | undefined {
  if (!url.startsWith('/')) return 'Expected a request target that begins with /.'
  const mark = url.indexOf('?')
  return pathProblem(mark === -1 ? url : url.slice(0, mark))
}
