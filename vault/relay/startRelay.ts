import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, isIPv6, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { forwardedAddress, isLoopback } from '../../core/http/caller.ts'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'
import { createForwarder, Routes, reportLoss } from './forward.ts'
import { challengeBytes, frame, frameTypes, MAX_FRAME_BYTES, relayPath } from './frames.ts'
import { addressKey, Buckets, defaultRelayLimits, HalfOpen, type RelayLimits } from './limits.ts'
import { Backlog, closeCodes, makeRoomFor, Peer } from './peer.ts'

/** Maximum sockets per address in addition to its connections. They are being opened, refused or used for health checks. */
const SPARE_SOCKETS = 32

export interface RelayOptions {
  readonly host: string
  /** 0 for any free port. */
  readonly port: number
  /** Certificate and key as PEM texts. Without them, the relay serves plain `ws:` and needs a proxy that terminates TLS. */
  readonly tls?: { readonly cert: string; readonly key: string }
  readonly limits?: Partial<RelayLimits>
  /**
   * True to take the caller's address from the last entry of `X-Forwarded-For`. Use it only behind a proxy that sets this
   * header.
   */
  readonly trustProxy?: boolean
  readonly clock?: Clock
  readonly log?: Log
}

export interface RelayStats {
  readonly connections: number
  /** Routing ids with a vault behind them. */
  readonly routes: number
  /** Connections that are attached to a routing id. */
  readonly agents: number
  /** Bytes that wait for receivers. */
  readonly backlogBytes: number
  /** How often a sender was paused because its address sent too fast. */
  readonly slowed: number
}

export interface Relay {
  /** `wss://host:port`, or `ws://` without certificates. */
  readonly url: string
  readonly port: number
  stats(): RelayStats
  close(): Promise<void>
}

/**
 * Starts a relay, which connects agents and vaults that are both behind a NAT. It forwards ciphertext by routing id,
 * stores nothing on disk, and neither reads nor logs what it forwards. It reports unreachable peers to the sender.
 *
 * @example const relay = await startRelay({ host: '0.0.0.0', port: 8430, tls: { cert, key } })
 */
export async function startRelay(options: RelayOptions): Promise<Relay> {
  const { host, port, tls, trustProxy = false, clock = systemClock, log = silentLog } = options
  const limits: RelayLimits = { ...defaultRelayLimits, ...options.limits }
  const checks = { connectionsCheckingInterval: Math.min(5_000, limits.identifyMs) }
  const server = tls
    ? createTlsServer(
        { ...tls, ...checks, minVersion: 'TLSv1.2', handshakeTimeout: limits.identifyMs },
        health,
      )
    : createServer(checks, health)
  // A client that sends nothing, or an incomplete request, is disconnected after the same time as one that does not identify
  // itself.
  server.headersTimeout = limits.identifyMs
  server.requestTimeout = limits.identifyMs
  server.maxConnections = limits.maxConnections * 2 + SPARE_SOCKETS
  if (!trustProxy) server.on('connection', countConnection)
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_FRAME_BYTES,
    perMessageDeflate: false, // the sizes of compressed messages would reveal something about their content
    clientTracking: false,
  })
  const peers = new Map<number, Peer>()
  const routes = new Routes()
  const backlog = new Backlog(limits.maxTotalBufferedBytes)
  const challenges = new WeakMap<Peer, Buffer>()
  const forward = createForwarder(routes, peers, (peer) => challenges.get(peer)!, limits)
  const connects = new Buckets(limits.connectsPerMinutePerIp, limits.connectsPerMinutePerIp / 60)
  const frames = new Buckets(limits.framesPerSecondPerIp, limits.framesPerSecondPerIp)
  const perIp = new Map<string, number>()
  const socketsPerIp = new Map<string, number>()
  const halfOpen = new HalfOpen(limits.maxConnections)
  let lastId = 0
  let slowed = 0

  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => {})
    const ip = addressOf(request, trustProxy)
    const refusal = refusalOf(request, ip)
    if (refusal !== undefined) return refuse(socket, refusal)
    halfOpen.delete(ip, request.socket)
    sockets.handleUpgrade(request, socket, head, (connection) => welcome(connection, ip))
  })

  function refusalOf(request: IncomingMessage, ip: string): string | undefined {
    if (request.url !== relayPath) return '404 Not Found'
    // A request with an Origin comes from a web page, which has no access. Programs send no Origin.
    if (request.headers.origin !== undefined) return '403 Forbidden'
    if ((perIp.get(ip) ?? 0) >= limits.maxConnectionsPerIp) return '429 Too Many Requests'
    if (connects.take(ip, clock.now()) > 0) return '429 Too Many Requests'
    if (peers.size < limits.maxConnections) return undefined
    const largest = makeRoomFor({ ip }, peers.values())
    if (largest === undefined) return '503 Service Unavailable'
    largest.socket.terminate()
    leave(largest)
    return undefined
  }

  /** Limits connections that never become a WebSocket, before it reads from them. */
  function countConnection(socket: Socket): void {
    const ip = addressKey(socket.remoteAddress ?? 'unknown')
    const open = (socketsPerIp.get(ip) ?? 0) + 1
    if (open > limits.maxConnectionsPerIp + SPARE_SOCKETS) return void socket.destroy()
    socketsPerIp.set(ip, open)
    halfOpen.add(ip, socket)
    const { remoteAddress, remotePort, localPort } = socket
    socket.once('close', () => {
      halfOpen.delete(ip, { remoteAddress, remotePort, localPort })
      const left = socketsPerIp.get(ip)! - 1
      if (left === 0) socketsPerIp.delete(ip)
      else socketsPerIp.set(ip, left)
    })
  }

  function welcome(socket: WebSocket, ip: string): void {
    do lastId = (lastId + 1) >>> 0
    while (peers.has(lastId))
    const peer = new Peer(lastId, ip, socket, backlog, limits.maxBufferedBytes)
    peers.set(peer.id, peer)
    perIp.set(ip, (perIp.get(ip) ?? 0) + 1)
    const challenge = randomBytes(challengeBytes)
    challenges.set(peer, challenge)
    const identify = setTimeout(() => {
      if (!peer.isIdentified) peer.end(closeCodes.unidentified, 'did not identify itself')
    }, limits.identifyMs).unref()
    socket.on('error', () => {}) // after a bad frame or a lost connection, `close` follows
    socket.on('pong', () => (peer.isAlive = true))
    socket.on('message', (data, isBinary) => {
      if (!isBinary) return peer.end(closeCodes.badFrame, 'text')
      slowDown(peer)
      forward(peer, data as Buffer)
    })
    socket.on('close', () => {
      clearTimeout(identify)
      leave(peer)
    })
    peer.send(frame(frameTypes.challenge, challenge))
  }

  /** Stops reading until the address has frames left. This frame is still forwarded, because it has already arrived. */
  function slowDown(peer: Peer): void {
    const waitMs = frames.take(peer.ip, clock.now())
    if (waitMs === 0) return
    slowed++
    peer.pause()
    setTimeout(() => peer.resume(), waitMs).unref()
  }

  function leave(peer: Peer): void {
    // A connection that had to make room was removed before its socket closed.
    if (!peers.delete(peer.id)) return
    const left = perIp.get(peer.ip)! - 1
    if (left === 0) perIp.delete(peer.ip)
    else perIp.set(peer.ip, left)
    const route = routes.routeOfAgent(peer)
    if (route !== undefined) {
      const id = Buffer.alloc(4)
      id.writeUInt32BE(peer.id)
      routes.vaultOf(route)?.send(frame(frameTypes.gone, id), route, peer)
    }
    for (const lost of routes.remove(peer)) reportLoss(routes, lost)
    peer.release()
  }

  const beat = setInterval(() => {
    for (const peer of peers.values()) {
      if (!peer.isAlive) peer.socket.terminate()
      peer.isAlive = false
      peer.socket.ping()
    }
    connects.sweep(clock.now())
    frames.sweep(clock.now())
  }, limits.pingMs).unref()

  await listen(server, host, port)
  const bound = (server.address() as AddressInfo).port
  const url = `${tls ? 'wss' : 'ws'}://${isIPv6(host) ? `[${host}]` : host}:${bound}`
  if (!tls && !isLoopback(host))
    log.warn(
      { url },
      'the relay serves plain ws. Put the relay behind a proxy that terminates TLS, or give the relay a certificate',
    )

  return {
    url,
    port: bound,
    stats: () => ({ connections: peers.size, ...routes.counts, backlogBytes: backlog.bytes, slowed }),
    async close() {
      clearInterval(beat)
      const closed = once(server, 'close')
      server.close()
      for (const peer of peers.values()) peer.end(closeCodes.goingAway, 'the relay is stopping')
      server.closeIdleConnections()
      await closed
    },
  }
}

function health(request: IncomingMessage, response: ServerResponse): void {
  request.resume()
  const isHealth = request.method === 'GET' && request.url === '/healthz'
  response.writeHead(isHealth ? 200 : 404, { 'content-type': 'text/plain', 'cache-control': 'no-store' })
  response.end(isHealth ? 'ok\n' : 'not found\n')
}

function refuse(socket: Duplex, status: string): void {
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
}

function addressOf(request: IncomingMessage, trustProxy: boolean): string {
  const forwarded = trustProxy ? request.headers['x-forwarded-for'] : undefined
  const last = forwarded?.toString().split(',').at(-1)?.trim()
  return addressKey((last && forwardedAddress(last)) || last || (request.socket.remoteAddress ?? 'unknown'))
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  server.listen(port, host)
  await once(server, 'listening') // rejects with the server's `error`
}
