import { createServer, type IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { TollgateError } from '../core/errors/error.ts'
import { errorReply } from '../core/http/errorReply.ts'
import { closeInStages, lingerOnClose, throwAway } from '../core/http/lingeringClose.ts'
import type { Generation } from '../core/kernel/generation.ts'
import type { LinkCalls } from '../core/ports/linkCalls.ts'
import { failureReceipt, unread } from '../core/x402/refusedPayment.ts'
import type { AccessLogOptions } from './accessLog.ts'
import { answerUnderWay, refuseBrokenRequest, refuseSocket } from './brokenRequest.ts'
import { type CallPlane, type CallPlaneParts, createCallPlane, stopping } from './callPlane.ts'
import { createClientIp } from './clientIp.ts'
import { corsHeaders } from './cors.ts'
import { dropWhatFollows, endBehindAnswers, isBetweenRequests, throwRestAway } from './dropWhatFollows.ts'
import type { HandOver } from './handOver.ts'
import { type HeadFacts, linkPrefix, parseTarget, pathProblem, readHead } from './head.ts'
import { HttpDoor, send, sendOnSocket } from './httpDoor.ts'
import { WaitingUpgrade } from './waitingUpgrade.ts'

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

export interface GatewayParts extends CallPlaneParts {
  readonly handOver: HandOver
}

/** The data plane: one public listener that runs calls of links, and hands the rest to the admin API. */
export interface Gateway {
  /** Calls that come by other ways, through the same programs. */
  readonly linkCalls: LinkCalls
  /** Of the calls of either way. */
  readonly calls: Pick<CallPlane, 'counts' | 'generation'>
  listen(port: number, host: string): Promise<AddressInfo>
  /** Makes another generation answer from the next call on; the old one is `retired` when its last call has ended. */
  swap(generation: Generation): Promise<{ readonly retired: Promise<void> }>
  /** Stops accepting, tells callers by their answers, lets calls under way end within the drain time, then cuts what is left. */
  close(): Promise<void>
}

/** For so long a gateway that was told to stop keeps idle connections: the answer to what still comes on one says that it ends. */
const NOTICE_MS = 250
/** Connections that became idle while the gateway drains are looked for this often. */
const SWEEP_MS = 50
/** What calls may still write down after their connections were cut; recovery finishes the rest. */
const LAST_WORDS_MS = 1_000
/** How often node looks for heads and requests that are late; its own 30 s would add as much to every limit. */
const CHECK_MS = 1_000
/** Requests of one connection that wait behind another's answer; node starts as many as came in one piece, a thousand or so. */
const MOST_WAITING = 16

export function createGateway(first: Generation, parts: GatewayParts, options: GatewayOptions): Gateway {
  const { log, chains, handOver } = parts
  const clientIpOf = createClientIp(options.trustedProxyCidrs, log)
  const calls = createCallPlane(first, parts, options)
  const { router, accessLog } = calls
  /** All connections, those too that left HTTP, which the server no longer closes itself. */
  const open = new Set<Socket>()
  /**
   * Connections whose last answer is known already, so that what comes behind it is not looked at, each with its last request;
   * null where the rest of that is not read either.
   */
  const ending = new Map<Duplex, IncomingMessage | null>()
  /** Answers of a connection that wait behind another one. */
  const behind = new WeakMap<Duplex, Set<ServerResponse>>()
  /** Handshakes that came while their connection owed an answer. */
  const early = new WeakSet<IncomingMessage>()
  let isDraining = false

  const server = createServer(
    {
      maxHeaderSize: options.maxHeaderBytes,
      headersTimeout: options.headersTimeoutMs,
      requestTimeout: options.requestTimeoutMs,
      keepAliveTimeout: options.keepAliveTimeoutMs,
      connectionsCheckingInterval: CHECK_MS,
      // `readHead` refuses a request without one, with an answer that says so.
      requireHostHeader: false,
      // Only WebSockets are upgraded; `Upgrade: h2c` and others are ordinary requests.
      // Node drops what came behind one of those in the same piece; who offers HTTP/2 waits for the answer (RFC 7540, section 3.2).
      shouldUpgradeCallback: (req) => isWebSocket(req) && mayUpgrade(req),
    },
    onRequest,
  )
  lingerOnClose(server)
  server.on('connection', (socket) => {
    open.add(socket)
    socket.once('close', () => {
      open.delete(socket)
      ending.delete(socket)
    })
  })
  server.on('checkContinue', onRequest)
  server.on('upgrade', onUpgrade)
  server.on('connect', (_req, socket) => {
    socket.on('error', () => socket.destroy())
    // Written now, it would pass for the answer that is still to come.
    if (answerUnderWay(socket) !== undefined) return void socket.destroy()
    refuseSocket(socket, accessLog, '400 Bad Request', 'bad_request', 'Method CONNECT is not served here.')
  })
  server.on('clientError', onBroken)

  function onRequest(req: IncomingMessage, res: ServerResponse): void {
    const head = readHead(req)
    if (head.problem !== null) return refuseRequest(req, res, head.problem, head)
    // Only an answer that is not the connection's next has no socket yet.
    if (res.socket === null) {
      if (early.has(req))
        return refuseRequest(req, res, 'Expected no upgrade before the requests ahead are answered.', head)
      if (!mayWait(req.socket, res))
        return refuseRequest(req, res, `At most ${MOST_WAITING} requests may wait on one connection.`, head)
    }
    // Whether the body comes is open until the end, so nothing can follow it.
    if (isDraining || head.expectsContinue) endAfter(req.socket, res)
    const url = req.url!
    if (!url.startsWith(linkPrefix)) {
      const problem = otherPathProblem(url)
      if (problem !== undefined) return refuseRequest(req, res, problem, head)
      const forward = () => {
        if (head.expectsContinue) res.writeContinue()
        handOver.web(req, res, clientIpOf(req), head.requestId)
      }
      // Each has connections of its own to the admin API, which answers at once: behind an answer that is not read, all of that
      // would pile up.
      return void (res.socket === null ? res.once('socket', forward) : forward())
    }
    const target = parseTarget(url)
    if (typeof target === 'string') return refuseRequest(req, res, target, head)
    if (head.hasBody) res.once('finish', () => discardRest(req))
    const door = new HttpDoor(req, res, null, head.requestId)
    if (target === undefined) return router.notFound({ door, head })
    const waiting = head.expectsContinue ? door : undefined
    router.route({ door, head, target, url, clientIp: clientIpOf(req), waiting })
  }

  /** What is called behind it could not be answered, and would be charged all the same. */
  function endAfter(socket: Socket, last: ServerResponse): void {
    ending.set(socket, last.req)
    dropWhatFollows(socket)
    last.shouldKeepAlive = false
    // Whoever calls all the same is read from for a while: a reset would take what it has not read of the answer.
    socket.destroySoon = () => closeInStages(socket)
  }

  /** What comes behind whole requests, and is none, is neither waited for nor refused: it would cost the answers ahead. */
  function onBroken(error: Error, socket: Duplex): void {
    const last = ending.get(socket)
    const isBehindLast = last === null || last?.complete
    // Who has ended its side is gone.
    if (socket.readable && isBehindLast) throwRestAway(socket as Socket)
    else if (socket.readable && isBetweenRequests(socket as Socket)) endBehindAnswers(socket as Socket)
    else refuseBrokenRequest(error, socket, accessLog)
  }

  function mayWait(socket: Duplex, res: ServerResponse): boolean {
    const waiting = behind.get(socket) ?? waitOn(socket)
    if (waiting.size === MOST_WAITING) return false
    waiting.add(res)
    // It gets the connection when it is the next.
    res.once('socket', () => waiting.delete(res))
    return true
  }

  function waitOn(socket: Duplex): Set<ServerResponse> {
    const waiting = new Set<ServerResponse>()
    behind.set(socket, waiting)
    // Node tells only the answer that has the connection when that is gone, and of one that has left HTTP (CONNECT) no call at all.
    socket.once('close', () => {
      for (const res of waiting) {
        res.destroy()
        res.emit('close')
      }
    })
    return waiting
  }

  /** An upgraded connection is written on at once: ahead of an answer that it still owes, or into the middle of it. */
  function mayUpgrade(req: IncomingMessage): boolean {
    if (answerUnderWay(req.socket) === undefined) return true
    early.add(req)
    return false
  }

  function onUpgrade(req: IncomingMessage, socket: Duplex, rest: Buffer): void {
    // The handlers of an upgraded socket are gone; without one, a reset would end the process.
    socket.on('error', () => socket.destroy())
    const res = new ServerResponse(req)
    const head = readHead(req)
    const { requestId } = head
    const refuse = (error: TollgateError) => {
      const { reply, code } = errorReply(error, log, requestId)
      sendOnSocket(res, socket, reply, null, requestId)
      accessLog.unrouted({ requestId, method: req.method, status: reply.status, code })
    }
    const refuseUpgrade = (problem: string) => refuse(new TollgateError('bad_request', problem))
    // It would be charged, and cut at the end of the drain time.
    if (isDraining) return refuse(stopping())
    if (head.problem !== null) return refuseUpgrade(head.problem)
    // RFC 6455, section 4.1; a body would be taken for the first frames.
    if (req.method !== 'GET' || head.hasBody)
      return refuseUpgrade('Expected an upgrade by GET without a body.')
    const url = req.url!
    if (!url.startsWith(linkPrefix)) {
      const problem = otherPathProblem(url)
      if (problem !== undefined) return refuseUpgrade(problem)
      return handOver.upgrade(req, socket, rest, clientIpOf(req), requestId)
    }
    const target = parseTarget(url)
    if (typeof target === 'string') return refuseUpgrade(target)
    const door = new HttpDoor(req, res, new WaitingUpgrade(socket, rest), requestId)
    if (target === undefined) return router.notFound({ door, head })
    router.route({ door, head, target, url, clientIp: clientIpOf(req) })
  }

  /** What can be read in two ways is answered and the connection closed: nothing after it can be trusted. */
  function refuseRequest(req: IncomingMessage, res: ServerResponse, problem: string, head: HeadFacts): void {
    const { socket } = req
    if (!socket.destroyed) {
      // It may be long until its answer is written, which ends the connection.
      const mustWait = res.socket === null
      ending.set(socket, mustWait ? null : req)
      dropWhatFollows(socket)
      if (mustWait) throwAway(socket)
    }
    res.shouldKeepAlive = false
    const error = new TollgateError('bad_request', problem)
    const { requestId, paymentHeader } = head
    const { reply, code } = errorReply(error, log, requestId)
    const isPresented = paymentHeader !== null
    accessLog.unrouted({ requestId, method: req.method, status: reply.status, code, isPresented })
    if (!req.url!.startsWith(linkPrefix)) return void send(res, reply, null, requestId)
    const network = chains.assets[0]?.network
    const receipt = isPresented ? failureReceipt(unread(head.x402Version), error, 400, network) : []
    send(res, reply, head.hasOrigin ? [...corsHeaders, ...receipt] : receipt, requestId)
  }

  return {
    linkCalls: calls.linkCalls,
    calls,
    listen: (port, host) =>
      new Promise((resolve, reject) => {
        server.once('error', reject)
        server.listen(port, host, 4096, () => {
          server.off('error', reject)
          resolve(server.address() as AddressInfo)
        })
      }),
    swap: (generation) => calls.swap(generation),
    async close() {
      isDraining = true
      for (const socket of open) {
        const underWay = answerUnderWay(socket)
        const isLast = underWay?.headersSent === false && !behind.get(socket)?.size
        if (isLast) endAfter(socket, underWay)
      }
      const { promise: isCut, resolve: cut } = Promise.withResolvers<void>()
      const deadline = setTimeout(() => {
        calls.cutOff()
        for (const socket of open) socket.destroy()
        cut()
      }, options.drainTimeoutMs)
      // What callers have sent on idle connections, and nobody has read yet, would be reset with them.
      let mayCloseIdle = false
      const closeIdle = server.closeIdleConnections.bind(server)
      server.closeIdleConnections = () => {
        const isLeft = (socket: Socket) => socket.writableLength > 0 || ending.has(socket)
        if (mayCloseIdle) sparing([...open].filter(isLeft), closeIdle)
      }
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MS)
      const notice = setTimeout(() => {
        mayCloseIdle = true
      }, NOTICE_MS)
      await closed
      clearTimeout(notice)
      clearInterval(sweep)
      handOver.close()
      const patience = new AbortController()
      const givenUp = isCut.then(() => sleep(LAST_WORDS_MS, undefined, { signal: patience.signal }))
      await Promise.race([calls.close(), givenUp])
      patience.abort()
      givenUp.catch(() => undefined)
      clearTimeout(deadline)
    },
  }
}

/** Node takes a connection for idle whose last answer its caller has not read yet, and would throw the rest of it away. */
function sparing(unread: readonly Socket[], closeIdle: () => void): void {
  for (const socket of unread) socket.destroy = () => socket
  closeIdle()
  for (const socket of unread) delete (socket as Partial<Socket>).destroy
}

/**
 * What is left of a body behind its answer is thrown away, because the next request on the connection stands behind it. Node
 * does so itself only where nobody had begun to read.
 */
function discardRest(req: IncomingMessage): void {
  if (!req.complete) req.unpipe().resume()
}

const isWebSocket = ({ headers }: IncomingMessage): boolean => headers.upgrade?.toLowerCase() === 'websocket'

/** Why a request that is not a call can't be handed over; undefined when it can (RFC 9112, section 3.2: origin form). */
function otherPathProblem(url: string): string | undefined {
  if (!url.startsWith('/')) return 'Expected a request target that begins with /.'
  const mark = url.indexOf('?')
  return pathProblem(mark === -1 ? url : url.slice(0, mark))
}
