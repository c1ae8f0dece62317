import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { UpstreamController } from '../../core/ports/egress.ts'
import {
  basicAuthorization,
  type CallNode,
  lateMessage,
  longMessage,
  type NodeResponse,
  NotAnswered,
} from '../../core/rpc/post.ts'
import { requestByFetch } from '../../core/rpc/requestByFetch.ts'
import { EgressError, systemError } from '../egress/errors.ts'
import { Http1Connection } from '../egress/http1/connection.ts'
import { Http1Pool, type Http1PoolOptions } from '../egress/http1/pool.ts'

/** How long an unused connection stays open, in ms. Routers on the way to the node keep a connection's state for longer. */
const KEEP_ALIVE_MS = 30_000
const MAX_HEADER_BYTES = 16_384
const CONNECT_MS = 10_000
/** Idle time in ms before TCP probes whether the node still responds. */
const PROBE_MS = 15_000
const redirects = new Set([301, 302, 303, 307, 308])

/**
 * Calls a chain's node over HTTP/1.1 keep-alive connections. A request costs a tenth of what `fetch` needs (bench/paid.ts). The
 * function uses `fetch` only if Node is configured to use the environment's proxy. It sends a name and password in the URL as Basic
 * authorization.
 */
export const callNode: CallNode = usesProxy() ? requestByFetch(fetch) : postToNode

function postToNode({
  url,
  body,
  maxResponseBytes,
  timeoutMs,
  signal,
}: Parameters<CallNode>[0]): Promise<NodeResponse> {
  const target = targetOf(url)
  if (target === undefined) return Promise.reject(new NotAnswered('failed', 'its URL cannot be used'))
  return new Promise((resolve, reject) => {
    let controller: UpstreamController | undefined
    let isOver = false
    let status = 0
    let length = 0
    const chunks: Buffer[] = []
    const end = (): boolean => {
      if (isOver) return false
      isOver = true
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      return true
    }
    const fail = (error: NotAnswered): void => {
      if (!end()) return
      controller?.abort(error)
      reject(error)
    }
    const onAbort = () => fail(new NotAnswered('failed', 'AbortError'))
    const timer = setTimeout(() => fail(new NotAnswered('late', lateMessage)), timeoutMs)
    if (signal?.aborted) return onAbort()
    signal?.addEventListener('abort', onAbort)
    target.pool.dispatch(
      {
        method: 'POST',
        path: target.path,
        headers: target.headers,
        body: Buffer.from(body),
        // The timer above limits the whole request.
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      {
        onRequestStart(given) {
          controller = given
          // The request was aborted while it waited for a connection.
          if (isOver) given.abort(new NotAnswered('late', lateMessage))
        },
        onResponseStart(_controller, code) {
          status = code
          if (redirects.has(code)) fail(new NotAnswered('failed', 'unexpected redirect'))
        },
        onResponseData(_controller, chunk) {
          length += chunk.length
          if (length > maxResponseBytes) fail(new NotAnswered('long', longMessage(maxResponseBytes)))
          else chunks.push(Buffer.from(chunk))
        },
        onResponseEnd() {
          if (!end()) return
          const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
          resolve({ status, text: bytes.toString('utf8') })
        },
        onResponseError(_controller, error) {
          const fault = toNotAnswered(error)
          // A node that closes one connection usually closes all of them, and a repeated request needs an open one.
          if (fault.kind === 'broken') target.pool.dropIdle()
          fail(fault)
        },
      },
    )
  })
}

/** The target of a URL. Its path and query may contain the provider's key. */
interface Target {
  readonly pool: Http1Pool
  readonly path: string
  readonly headers: readonly string[]
}

/** Targets by their URL, as configured. */
const targets = new Map<string, Target | undefined>()
/** By origin. Idle connections close on their own and do not keep the process running. */
const pools = new Map<string, Http1Pool>()

function targetOf(text: string): Target | undefined {
  let target = targets.get(text)
  if (target === undefined && URL.canParse(text)) {
    target = toTarget(new URL(text))
    targets.set(text, target)
  }
  return target
}

function toTarget(url: URL): Target | undefined {
  const { protocol, origin, pathname, search } = url
  if (protocol !== 'http:' && protocol !== 'https:') return undefined
  let pool = pools.get(origin)
  if (pool === undefined) {
    pool = poolTo(url)
    pools.set(origin, pool)
  }
  const headers = [
    ...['content-type', 'application/json', 'accept', '*/*', 'accept-encoding', 'identity'],
    // The value is the one of Node's own client, because some providers refuse requests without a user agent.
    ...['user-agent', 'node'],
  ]
  const authorization = basicAuthorization(url)
  if (authorization !== undefined) headers.push('authorization', authorization)
  return { pool, path: pathname + search, headers }
}

function poolTo({ protocol, hostname, port, host }: URL): Http1Pool {
  const isSecure = protocol === 'https:'
  const name = hostname.replace(/^\[|\]$/g, '')
  const where = { host: name, port: port === '' ? (isSecure ? 443 : 80) : Number(port) }
  /** The TLS session of an earlier connection. It saves the next connection a round trip. */
  let session: Buffer | undefined
  const open: Http1PoolOptions['open'] = (onBytes) =>
    new Promise<Socket>((resolve, reject) => {
      const read = { ...where, onread: Http1Connection.reading(onBytes) }
      const socket = isSecure
        ? connectTls({
            ...read,
            // RFC 6066, section 3, forbids SNI for an IP address. Node then checks the certificate against `host`.
            servername: isIP(name) === 0 ? name : '',
            ALPNProtocols: ['http/1.1'],
            ...(session === undefined ? {} : { session }),
          }).on('session', (given: Buffer) => (session = given))
        : connectTcp(read)
      socket.setNoDelay(true).setKeepAlive(true, PROBE_MS)
      socket.on('error', reject)
      socket.once('close', () => reject(new NotAnswered('broken', 'ECONNRESET')))
      const timer = setTimeout(() => socket.destroy(new NotAnswered('failed', 'ETIMEDOUT')), CONNECT_MS)
      socket.once('close', () => clearTimeout(timer))
      socket.once(isSecure ? 'secureConnect' : 'connect', () => {
        clearTimeout(timer)
        resolve(socket)
      })
    })
  return new Http1Pool({
    host,
    keepAliveTimeoutMs: KEEP_ALIVE_MS,
    maxHeaderBytes: MAX_HEADER_BYTES,
    isUnheld: true,
    open,
  })
}

const brokenCodes = new Set(['ECONNRESET', 'EPIPE'])

/** Keeps only the code of a system error, and the messages of this module's own client. */
function toNotAnswered(error: Error): NotAnswered {
  if (error instanceof NotAnswered) return error
  const { code } = systemError(error instanceof EgressError ? error.cause : error)
  if (error instanceof EgressError && error.code === 'EGRESS_BROKEN')
    return new NotAnswered('broken', code === '' ? 'ECONNRESET' : code)
  if (brokenCodes.has(code)) return new NotAnswered('broken', code)
  if (code !== '') return new NotAnswered('failed', code)
  return new NotAnswered(
    'failed',
    error instanceof EgressError ? 'its response is not well-formed HTTP' : 'it cannot be reached',
  )
}

/** Whether Node sends its own requests through the environment's proxy. */
function usesProxy(): boolean {
  const flags = [...process.execArgv, ...(process.env['NODE_OPTIONS'] ?? '').split(' ')]
  return process.env['NODE_USE_ENV_PROXY'] === '1' || flags.includes('--use-env-proxy')
}
