import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { LRUCache } from 'lru-cache'
import { Pool } from 'undici'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import { type Egress, MAX_ANSWER_HEAD_BYTES } from '../../core/ports/egress.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'
import { checkUrl, createAddressPolicy, createListedPolicy, hostOf, judgeUrl } from './addressPolicy.ts'
import { boundedRequest } from './boundedRequest.ts'
import { EgressError, toEgressError } from './errors.ts'
import { type OriginPool, PoolRegistry, SellerPool } from './http1/pool.ts'
import { InterimLimitedPool } from './interimLimit.ts'
import { createHostResolver } from './names/resolveHost.ts'
import { Connectivity, createSocketOpener, type SocketTarget } from './sockets.ts'

/**
 * Connections per origin for webhooks and facilitators. Proxied calls and health checks use other connections, so that no kind
 * waits for another.
 */
const REQUEST_CONNECTIONS = 16
/** The log reports refusals of a host at most once per this time, in ms. */
const REFUSAL_LOG_MS = 60_000
/** Longest wait for the name of a URL that is being saved, in ms. */
const MAX_JUDGE_MS = 2_000
const httpSchemes = ['http:', 'https:']
const connectSchemes = ['http:', 'https:', 'ws:', 'wss:']

export interface EgressOptions {
  /** Ranges that sellers may use although they are not public, such as `10.1.0.0/16`. Default: none. */
  readonly allowPrivateCidrs?: readonly string[]
  /** Ports that {@link Egress.judgeUrl} allows on addresses outside those ranges. Default: 80 and 443. */
  readonly publicPorts?: readonly number[]
  /** Name servers, each `IP` or `IP:port`. Default: the hosts file and then the system's name servers. */
  readonly dnsServers?: readonly string[]
  /** Time limit for name, TCP and TLS together, in ms. Default 5,000. */
  readonly connectTimeoutMs?: number
  /** Maximum number of connections to one origin for proxied calls. Default 128. */
  readonly connectionsPerOrigin?: number
  /**
   * How long an unused connection stays open, in ms. Node servers close it after 5 s, so the time should be shorter. Default 4,000.
   */
  readonly keepAliveTimeoutMs?: number
  /** Largest head of a response, in bytes. Default: 16,384. */
  readonly maxHeaderBytes?: number
  /** Longest wait between two pieces of a body if the request sets no limit, in ms. Default: 60,000. */
  readonly bodyTimeoutMs?: number
  /** PEM file of certificate authorities that are trusted in addition to the usual ones. */
  readonly extraCaFile?: string
  /** Maximum number of pools that stay open, including unused ones. Default 1,000. */
  readonly maxPoolCount?: number
  /** How long a pool without users stays open, in ms. Default: 30,000. */
  readonly idlePoolMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/**
 * Creates the pools of connections to sellers' addresses. The address policy judges every connection.
 * @throws {Error} when a range, a name server or the CA file cannot be read
 */
export function createEgress(options: EgressOptions = {}): Egress {
  const { connectTimeoutMs = 5_000, clock = systemClock, log = silentLog } = options
  const isAllowed = createAddressPolicy(options.allowPrivateCidrs)
  // The time limit of name lookups leaves some time for the connection.
  const resolver = createHostResolver(
    options.dnsServers ?? [],
    Math.max(100, Math.floor(connectTimeoutMs / 4)),
  )
  const judgement = {
    isAllowed,
    isListed: createListedPolicy(options.allowPrivateCidrs ?? []),
    resolve: resolver.resolve,
    timeoutMs: Math.min(connectTimeoutMs, MAX_JUDGE_MS),
    publicPorts: options.publicPorts ?? [80, 443],
  }
  const connectivity = new Connectivity(clock)
  const recentlyLogged = new LRUCache<string, true>({ max: 1_000, ttl: REFUSAL_LOG_MS })
  const openSocket = createSocketOpener({
    isAllowed,
    resolve: resolver.resolve,
    connectTimeoutMs,
    secureContext: createTrust(options.extraCaFile),
    onRefused(host, addresses) {
      if (recentlyLogged.has(host)) return
      recentlyLogged.set(host, true)
      log.warn(
        { host, addresses },
        'refused to connect, because an address is neither public nor in allowPrivateCidrs',
      )
    },
  })
  let isClosed = false

  /** Opens a connection, and reports the outcome to {@link Connectivity}. */
  async function open(target: SocketTarget): Promise<Socket> {
    const origin = `${target.host}:${target.port}`
    try {
      const socket = await openSocket(target)
      connectivity.reached(socket)
      return socket
    } catch (error) {
      const { code, cause } = error as EgressError
      if (code !== 'EGRESS_REFUSED') connectivity.failed(origin, cause ?? error)
      throw error
    }
  }

  const keepAliveTimeoutMs = options.keepAliveTimeoutMs ?? 4_000
  const maxHeaderBytes = options.maxHeaderBytes ?? MAX_ANSWER_HEAD_BYTES

  /** Creates the function that opens connections to an origin. With TLS, each connection resumes the session of the last one. */
  function opener(origin: string): (onBytes?: SocketTarget['onBytes']) => Promise<Socket> {
    const target = targetOf(new URL(origin))
    let session: Buffer | undefined
    return async (onBytes) => {
      const socket = await open({ ...target, session, onBytes })
      if (target.secure) socket.on('session', (ticket: Buffer) => (session = ticket))
      return socket
    }
  }

  /** @param connections null for no limit, if the caller limits the requests itself */
  function undiciPool(
    origin: string,
    connections: number | null,
    openNext: () => Promise<Socket>,
  ): OriginPool {
    const pool = new Pool(origin, {
      connections,
      pipelining: 1,
      allowH2: false,
      keepAliveTimeout: keepAliveTimeoutMs,
      keepAliveMaxTimeout: 60_000,
      maxHeaderSize: maxHeaderBytes,
      headersTimeout: options.bodyTimeoutMs ?? 60_000,
      bodyTimeout: options.bodyTimeoutMs ?? 60_000,
      // undici's data about the target is not used, because it may come from a request's Host header. The pool's origin was
      // checked, and the header was not.
      connect(_hint, callback) {
        openNext().then(
          (socket) => callback(null, socket),
          (error) => callback(error, null),
        )
      },
    })
    // The types of undici lack the handlers and the bodies of the port.
    return new InterimLimitedPool(pool as unknown as OriginPool)
  }

  function sellerPool(origin: string): OriginPool {
    const { host } = new URL(origin)
    const openNext = opener(origin)
    return new SellerPool({ host, keepAliveTimeoutMs, maxHeaderBytes, open: openNext }, () =>
      undiciPool(origin, null, openNext),
    )
  }

  const requestPool = (origin: string) => undiciPool(origin, REQUEST_CONNECTIONS, opener(origin))

  const shared = { maxPoolCount: options.maxPoolCount ?? 1_000, idlePoolMs: options.idlePoolMs ?? 30_000 }
  const connections = options.connectionsPerOrigin ?? 128
  const pools = new PoolRegistry({ ...shared, connections, createPool: sellerPool })
  // Checks have a pool of their own without a limit. Stores may share an origin, and slow checks of one store must not make checks
  // of another store fail.
  const checkPools = new PoolRegistry({ ...shared, connections, createPool: sellerPool })
  const requestPools = new PoolRegistry({
    ...shared,
    connections: REQUEST_CONNECTIONS,
    createPool: requestPool,
  })
  const closedError = () => new EgressError('EGRESS_CLOSED', 'The egress is closed.')

  return {
    checkUrl: (url) => checkUrl(url, isAllowed, httpSchemes),
    judgeUrl: async (url) => judgeUrl(checkUrl(url, isAllowed, httpSchemes), judgement),

    pool(origin, use = 'calls') {
      if (isClosed) throw closedError()
      const registry = use === 'calls' ? pools : checkPools
      return registry.acquire(checkUrl(origin, isAllowed, httpSchemes).origin)
    },

    async request(request) {
      // If checkUrl refuses the URL, its VALIDATION_ERROR is passed on, because the mistake is the caller's and not the seller's.
      if (isClosed) throw closedError()
      const url = checkUrl(request.url, isAllowed, httpSchemes)
      const pool = requestPools.acquire(url.origin)
      try {
        return await boundedRequest(pool, url, request, toEgressError)
      } finally {
        pool.release()
      }
    },

    async connect(url) {
      if (isClosed) throw closedError()
      return open(targetOf(checkUrl(url.href, isAllowed, connectSchemes)))
    },

    failureOf: (error) => toEgressError(error).code,
    connectivity: () => connectivity.state(),

    async close() {
      isClosed = true
      resolver.close()
      await Promise.all([pools, checkPools, requestPools].map((registry) => registry.close(closedError())))
    },
  }
}

function targetOf(url: URL): SocketTarget {
  const secure = url.protocol === 'https:' || url.protocol === 'wss:'
  return { host: hostOf(url), port: Number(url.port) || (secure ? 443 : 80), secure }
}

function createTrust(extraCaFile: string | undefined): SecureContext {
  if (extraCaFile === undefined) return createSecureContext()
  const pem = readFileSync(extraCaFile, 'utf8')
  // Node silently accepts text without a certificate, and then every connection would fail.
  if (!pem.includes('-----BEGIN CERTIFICATE-----')) {
    throw new Error(`extraCaFile: expected certificates in PEM form, found none in ${extraCaFile}`)
  }
  return createSecureContext({ ca: [...getCACertificates('default'), pem] })
}
