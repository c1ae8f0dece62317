import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectTls, type SecureContext } from 'node:tls'
import type { AddressPolicy } from './addressPolicy.ts'
import { isLocalhost, loopback } from './checkUrl.ts'
import { EgressError } from './egressError.ts'
import { Http1Connection } from './http1/connection.ts'
import type { ResolveHost } from './names/resolveHost.ts'
import { systemError } from './systemError.ts'

/** A name with more addresses than this is answered by its first ones; nobody dials the rest within the time limit. */
const MAX_ADDRESSES = 16
/** How long one of several addresses is tried before the next (RFC 8305 says 250 ms; slow lines need more). */
const MAX_ATTEMPT_MS = 1_000

/** Idle time before TCP asks whether the other side is still there. */
const KEEP_ALIVE_PROBE_MS = 60_000

export interface SocketTarget {
  /** Without brackets and trailing dot. */
  readonly host: string
  readonly port: number
  readonly secure: boolean
  /** A TLS session of an earlier connection to the same host. */
  readonly session?: Buffer | undefined
  /**
   * Given what comes, in the place of the socket's `data`. The bytes lie where the next ones will: whoever keeps them copies
   * them before it returns.
   */
  readonly onBytes?: ((bytes: Buffer) => void) | undefined
}

export interface SocketOpenerOptions {
  readonly isAllowed: AddressPolicy
  readonly resolve: ResolveHost
  /** For name, TCP and TLS together, in milliseconds. */
  readonly connectTimeoutMs: number
  readonly secureContext: SecureContext
  /** Told what was refused, for the log: the error itself names no address. */
  readonly onRefused: (host: string, addresses: readonly string[]) => void
}

export type OpenSocket = (target: SocketTarget) => Promise<Socket>

/**
 * Makes the one function through which every connection of the gateway to a seller is opened.
 *
 * A name is resolved once a connection, every address it has is judged, and the connection is made to those very
 * addresses: there is no second look-up in which the answer could change. One address that is not allowed refuses the
 * whole name, since honest names do not mix public and private ones, and rebinding attacks do. The name stays the one
 * that TLS asks for (SNI) and checks.
 *
 * The promise fails with an `EgressError`.
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
          // Stays for good: between here and the new owner's own listener an error must not end the process.
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
    `${host} has an address that is not public; the gateway connects to public addresses only.`,
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
    // RFC 6066, section 3: no SNI for an address. Node then checks the certificate against `host`.
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
  // Not the system's message: it holds the address that was dialled.
  return new EgressError('EGRESS_UNREACHABLE', `No connection to ${host} came about.`, { cause: error })
}

function isCertificateError(code: string): boolean {
  return /^(ERR_TLS_CERT|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|INVALID_(CA|PURPOSE))/.test(
    code,
  )
}
