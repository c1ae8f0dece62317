import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectTls, type SecureContext } from 'node:tls'
import { isLoopback } from '../../core/http/caller.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { ConnectivityState } from '../../core/ports/egress.ts'
import { type AddressPolicy, isLocalhost, loopback } from './addressPolicy.ts'
import { EgressError, systemError } from './errors.ts'
import { Http1Connection } from './http1/connection.ts'
import type { ResolveHost } from './names/nameServers.ts'

/** Maximum number of addresses of a name that are tried. The time limit would not suffice for more. */
const MAX_ADDRESSES = 16
/**
 * How long one of several addresses is tried before the next, in ms. RFC 8305 recommends 250 ms, but slow connections need more.
 */
const MAX_ATTEMPT_MS = 1_000

/** Idle time in ms before TCP probes whether the peer still responds. */
const KEEP_ALIVE_PROBE_MS = 60_000

export interface SocketTarget {
  /** A host name or address, without brackets and without a trailing dot. */
  readonly host: string
  readonly port: number
  readonly secure: boolean
  /** A TLS session of an earlier connection to the same host. */
  readonly session?: Buffer | undefined
  /**
   * Receives the bytes instead of the socket's `data` event. The next bytes overwrite them, so a listener that keeps them must copy
   * them before it returns.
   */
  readonly onBytes?: ((bytes: Buffer) => void) | undefined
}

export interface SocketOpenerOptions {
  readonly isAllowed: AddressPolicy
  readonly resolve: ResolveHost
  /** Time limit for name, TCP and TLS together, in ms. */
  readonly connectTimeoutMs: number
  readonly secureContext: SecureContext
  /** Receives the refused addresses for the log. The error itself contains no address. */
  readonly onRefused: (host: string, addresses: readonly string[]) => void
}

export type OpenSocket = (target: SocketTarget) => Promise<Socket>

/**
 * Creates the one function through which the gateway opens every connection to a seller. The function resolves a name once per
 * connection, judges every address, and connects to exactly these addresses. So there is no second lookup whose result could
 * differ. If one address is not allowed, the whole name is refused, because rebinding attacks mix public and private addresses and
 * honest names do not. TLS still uses and verifies the name (SNI). The promise rejects with an `EgressError`.
 */
export function createSocketOpener(options: SocketOpenerOptions): OpenSocket {
  const { connectTimeoutMs } = options
  return (target) =>
    new Promise((resolve, reject) => {
      let socket: Socket | undefined
      let isSettled = false
      const fail = (error: EgressError) => {
        if (isSettled) return
        isSettled = true
        clearTimeout(timer)
        socket?.destroy()
        reject(error)
      }
      const timer = setTimeout(() => {
        fail(
          new EgressError('EGRESS_TIMEOUT', `No connection to ${target.host} within ${connectTimeoutMs} ms.`),
        )
      }, connectTimeoutMs)

      checkedAddresses(target.host, options).then(
        (addresses) => {
          if (isSettled) return
          socket = dial(target, addresses, options).setNoDelay(true).setKeepAlive(true, KEEP_ALIVE_PROBE_MS)
          // The listener stays until the new owner has added its own, because without a listener an error would end the process.
          socket.on('error', (error) => fail(toEgressError(target.host, error)))
          socket.once('close', () => fail(toEgressError(target.host, new Error('closed while connecting'))))
          const opened: Socket = socket
          opened.once(target.secure ? 'secureConnect' : 'connect', () => {
            if (isSettled) return
            isSettled = true
            clearTimeout(timer)
            resolve(opened)
          })
        },
        (error) => fail(toEgressError(target.host, error)),
      )
    })
}

async function checkedAddresses(host: string, options: SocketOpenerOptions): Promise<readonly string[]> {
  if (isLocalhost(host)) {
    const allowed = loopback.filter(options.isAllowed)
    if (allowed.length === 0) throw refused(host, loopback, options)
    return allowed
  }
  const addresses = isIP(host) === 0 ? await options.resolve(host) : [host]
  if (!addresses.every(options.isAllowed)) throw refused(host, addresses, options)
  return addresses.slice(0, MAX_ADDRESSES)
}

function refused(host: string, addresses: readonly string[], options: SocketOpenerOptions): EgressError {
  options.onRefused(host, addresses)
  return new EgressError(
    'EGRESS_REFUSED',
    `${host} has an address that is not public, and the gateway connects to public addresses only.`,
  )
}

function dial(target: SocketTarget, addresses: readonly string[], options: SocketOpenerOptions): Socket {
  const found = addresses.map((address) => ({ address, family: isIP(address) }))
  const lookup: LookupFunction = (_host, { all }, callback) => {
    if (all === true) callback(null, found)
    else callback(null, found[0]!.address, found[0]!.family)
  }
  const { onBytes } = target
  const where = {
    ...(onBytes !== undefined && { onread: Http1Connection.reading(onBytes) }),
    host: target.host,
    port: target.port,
    lookup,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: Math.min(MAX_ATTEMPT_MS, Math.max(10, options.connectTimeoutMs / 2)),
  }
  if (!target.secure) return connectTcp({ ...where, highWaterMark: 64 * 1024 } as typeof where)
  return connectTls({
    ...where,
    // RFC 6066, section 3, forbids SNI for an IP address. Node then checks the certificate against `host`.
    servername: isIP(target.host) === 0 ? target.host : '',
    secureContext: options.secureContext,
    rejectUnauthorized: true,
    ALPNProtocols: ['http/1.1'],
    ...(target.session === undefined ? {} : { session: target.session }),
  })
}

function toEgressError(host: string, error: unknown): EgressError {
  if (error instanceof EgressError) return error
  const { code } = systemError(error)
  if (isCertificateError(code)) {
    return new EgressError('EGRESS_UNTRUSTED', `The TLS certificate of ${host} is not valid (${code}).`, {
      cause: error,
    })
  }
  if (code === 'ETIMEDOUT' || code === 'ETIMEOUT') {
    return new EgressError('EGRESS_TIMEOUT', `No connection to ${host} in time.`, { cause: error })
  }
  // The message is not the system's, because that contains the address.
  return new EgressError('EGRESS_UNREACHABLE', `No connection to ${host} could be opened.`, { cause: error })
}

function isCertificateError(code: string): boolean {
  return /^(ERR_TLS_CERT|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|INVALID_(CA|PURPOSE))/.test(
    code,
  )
}

/** Failures older than this, in ms, are ignored. */
const WINDOW_MS = 30_000
/** If one seller is unreachable, the fault is that seller's. If several are, the fault may be in the gateway's own network. */
const MIN_FAILED_ORIGINS = 2
/** Maximum number of origins that are remembered, to limit the memory. More origins would not change the verdict. */
const MAX_REMEMBERED = 1024

/** Errors of a missing network or resolver. A refused connection is not in the list, because a remote machine refused it. */
const lineErrors = new Set([
  'EAI_AGAIN',
  'ETIMEOUT',
  'ETIMEDOUT',
  'EGRESS_TIMEOUT',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'ENETDOWN',
  'EHOSTDOWN',
  'EADDRNOTAVAIL',
  'ESERVFAIL',
])

/** Errors of a machine that has no resources left for a connection. */
const ownErrors = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM'])

/**
 * Judges whether the gateway's own network is down, so that no link is suspended because of it. The network counts as down if three
 * conditions were true in the last 30 s. At least two origins were unreachable at the level of names or routes, none was reached,
 * and no open connection has received a byte since the first of those failures. A "connection refused", a TLS error or an unknown
 * name shows that the network works, because a remote machine responded. Responses of this machine itself (loopback) do not count.
 * The network also counts as down for 30 s after this machine had no descriptor or memory for a connection, even if other
 * connections were opened meanwhile.
 *
 * The verdict is an estimate. If every tried origin is dead, the verdict is wrongly "down". This is acceptable, because suspending
 * links late costs less than suspending all links at once.
 */
export class Connectivity {
  readonly #clock: Clock
  readonly #failures = new Map<string, number>()
  /** Open connections, and the number of bytes that each had received when the current run of failures began. */
  readonly #open = new Map<Socket, number>()
  #lastReachedMs = Number.NEGATIVE_INFINITY
  #lastOwnErrorMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Records that a connection was opened. */
  reached(socket: Socket): void {
    if (isLoopback(socket.remoteAddress ?? '')) return
    this.#lastReachedMs = this.#clock.now()
    this.#failures.clear()
    this.#open.set(socket, socket.bytesRead)
    socket.once('close', () => this.#open.delete(socket))
  }

  /** Records that a connection could not be opened. @param error the system's error, or an `EGRESS_TIMEOUT` */
  failed(origin: string, error: unknown): void {
    const { code, address, syscall } = systemError(error)
    if (ownErrors.has(code)) this.#lastOwnErrorMs = this.#clock.now()
    if (ownErrors.has(code) || isLoopback(address)) return
    // A name server that refuses a connection is the gateway's own, and not a machine of the seller.
    const isLine = lineErrors.has(code) || (code === 'ECONNREFUSED' && syscall.startsWith('query'))
    if (!isLine) {
      if (code !== 'ENOTFOUND') this.#lastReachedMs = this.#clock.now()
      return
    }
    if (this.#failures.size === 0)
      for (const socket of this.#open.keys()) this.#open.set(socket, socket.bytesRead)
    if (this.#failures.size < MAX_REMEMBERED || this.#failures.has(origin)) {
      this.#failures.set(origin, this.#clock.now())
    }
  }

  state(): ConnectivityState {
    const since = this.#clock.now() - WINDOW_MS
    for (const [origin, atMs] of this.#failures) if (atMs < since) this.#failures.delete(origin)
    if (this.#lastOwnErrorMs >= since) return 'down'
    if (this.#lastReachedMs >= since) return 'up'
    for (const [socket, bytesBefore] of this.#open) if (socket.bytesRead > bytesBefore) return 'up'
    return this.#failures.size >= MIN_FAILED_ORIGINS ? 'down' : 'unknown'
  }
}
