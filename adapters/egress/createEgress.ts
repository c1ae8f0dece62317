import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { LRUCache } from 'lru-cache'
import { Pool } from 'undici'
import { MAX_ANSWER_HEAD_BYTES } from '../../core/http/answerHeadLimit.ts'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import type { Egress } from '../../core/ports/egress.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'
import { createAddressPolicy, createListedPolicy } from './addressPolicy.ts'
import { boundedRequest } from './boundedRequest.ts'
import { checkUrl, hostOf } from './checkUrl.ts'
import { EgressError } from './egressError.ts'
import { SellerPool } from './http1/pool.ts'
import { InterimLimitedPool } from './interimLimit.ts'
import { judgeUrl } from './judgeUrl.ts'
import { createHostResolver } from './names/resolveHost.ts'
import { createSocketOpener, type SocketTarget } from './openSocket.ts'
import { type OriginPool, PoolRegistry } from './poolRegistry.ts'
import { toEgressError } from './toEgressError.ts'
import { WayOut } from './wayOut.ts'

/** Connections an origin for webhooks and facilitators; apart from proxied calls and health checks, so that none waits for another. */
const REQUEST_CONNECTIONS = 16
/** A host that is refused over and over is logged once in this time. */
const REFUSAL_LOG_MS = 60_000
/** A save waits for a name no longer than this. */
const MAX_JUDGE_MS = 2_000
const httpSchemes = ['http:', 'https:']
const connectSchemes = ['http:', 'https:', 'ws:', 'wss:']

export interface EgressOptions {
  /** Ranges that sellers may point at although they are not public, such as `10.1.0.0/16`. Default: none. */
  readonly allowPrivateCidrs?: readonly string[]
  /** Ports that {@link Egress.judgeUrl} lets a URL name on addresses outside those ranges. Default: 80 and 443. */
  readonly publicPorts?: readonly number[]
  /** Name servers, `IP` or `IP:port`. Default: those of the system, after its hosts file. */
  readonly dnsServers?: readonly string[]
  /** For name, TCP and TLS together. Default: 5,000. */
  readonly connectTimeoutMs?: number
  /** Connections to one origin for proxied calls. Default: 128. */
  readonly connectionsPerOrigin?: number
  /** How long an unused connection is kept; below the 5 s after which Node servers hang up. Default: 4,000. */
  readonly keepAliveTimeoutMs?: number
  /** Largest head of an answer. Default: 16,384. */
  readonly maxHeaderBytes?: number
  /** Longest wait between two pieces of a body, where a request names none. Default: 60,000. */
  readonly bodyTimeoutMs?: number
  /** PEM file of certificate authorities trusted beside the usual ones. */
  readonly extraCaFile?: string
  /** Pools kept at once, unused ones included. Default: 1,000. */
  readonly maxPoolCount?: number
  /** How long a pool without users is kept. Default: 30,000. */
  readonly idlePoolMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/**
 * Makes the way out to sellers' addresses, on pools whose every connection passes the address policy.
 *
 * @throws {Error} when a range, a name server or the CA file can not be read
 */
export function createEgress(options: EgressOptions = {}): Egress {
  const { connectTimeoutMs = 5_000, clock = systemClock, log = silentLog } = options
  const isAllowed = createAddressPolicy(options.allowPrivateCidrs)
  // The tries end within the time limit, with some left for the connection.
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
  const wayOut = new WayOut(clock)
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
        'refused to connect: an address is neither public nor in allowPrivateCidrs',
      )
    },
  })
  let isClosed = false

  /** Opens, and tells the way-out judge how it went. */
  async function open(target: SocketTarget): Promise<Socket> {
    const origin = `${target.host}:${target.port}`
    try {
      const socket = await openSocket(target)
      wayOut.reached(socket)
      return socket
    } catch (error) {
      const { code, cause } = error as EgressError
      if (code !== 'EGRESS_REFUSED') wayOut.failed(origin, cause ?? error)
      throw error
    }
  }

  const keepAliveTimeoutMs = options.keepAliveTimeoutMs ?? 4_000
  const maxHeaderBytes = options.maxHeaderBytes ?? MAX_ANSWER_HEAD_BYTES

  /** Makes the function that opens connections to an origin; for TLS, each takes up the session of the last. */
  function opener(origin: string): (onBytes?: SocketTarget['onBytes']) => Promise<Socket> {
    const target = targetOf(new URL(origin))
    let session: Buffer | undefined
    return async (onBytes) => {
      const socket = await open({ ...target, session, onBytes })
      if (target.secure) socket.on('session', (ticket: Buffer) => (session = ticket))
      return socket
    }
  }

  /** @param connections null for as many as there are requests: the caller counts them */
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
      // What undici says about the target is not used: the pool's origin was checked, a request's Host header was not.
      connect(_hint, callback) {
        openNext().then(
          (socket) => callback(null, socket),
          (error) => callback(error, null),
        )
      },
    })
    // undici's types know neither the port's handlers nor its bodies.
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
  // Apart from calls, and without a limit: stores share an origin, and checks of one that hang would be another's that fail.
  const checkPools = new PoolRegistry({ ...shared, connections, createPool: sellerPool })
  const requestPools = new PoolRegistry({
    ...shared,
    connections: REQUEST_CONNECTIONS,
    createPool: requestPool,
  })
  const closedError = () => new EgressError('EGRESS_CLOSED', 'The way out is closed.')

  return {
    checkUrl: (url) => checkUrl(url, isAllowed, httpSchemes),
    judgeUrl: async (url) => judgeUrl(checkUrl(url, isAllowed, httpSchemes), judgement),

    pool(origin, use = 'calls') {
      if (isClosed) throw closedError()
      const registry = use === 'calls' ? pools : checkPools
      return registry.acquire(checkUrl(origin, isAllowed, httpSchemes).origin)
    },

    async request(request) {
      // A URL that checkUrl refuses fails here with its VALIDATION_ERROR: the caller's mistake, not the seller's.
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
    wayOut: () => wayOut.state(),

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
  // Text without a certificate would be taken without a word, and every connection would fail later.
  if (!pem.includes('-----BEGIN CERTIFICATE-----')) {
    throw new Error(`extraCaFile: expected certificates in PEM form, found none in ${extraCaFile}`)
  }
  return createSecureContext({ ca: [...getCACertificates('default'), pem] })
}
