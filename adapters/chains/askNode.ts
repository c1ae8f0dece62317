import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { UpstreamController } from '../../core/ports/egress.ts'
import { askByFetch } from '../../core/rpc/askByFetch.ts'
import {
  type AskNode,
  basicAuthorization,
  lateMessage,
  longMessage,
  type NodeAnswer,
  NotAnswered,
} from '../../core/rpc/post.ts'
import { EgressError } from '../egress/egressError.ts'
import { Http1Connection } from '../egress/http1/connection.ts'
import { Http1Pool, type Http1PoolOptions } from '../egress/http1/pool.ts'
import { systemError } from '../egress/systemError.ts'

/** An unused connection is kept for less than routers on the way remember it. */
const KEEP_ALIVE_MS = 30_000
const MAX_HEADER_BYTES = 16_384
const CONNECT_MS = 10_000
/** Idle time before TCP asks whether the node is still there. */
const PROBE_MS = 15_000
const redirects = new Set([301, 302, 303, 307, 308])

/**
 * Asks a chain's node over keep-alive connections, HTTP/1.1. A request costs a tenth of what `fetch` takes for it
 * (bench/settled.ts); `fetch` makes it where Node is told to use the environment's proxy. A name and password in the URL
 * are sent as Basic authorization.
 */
export const askNode: AskNode = usesProxy() ? askByFetch(fetch) : ask

function ask({ url, body, maxAnswerBytes, timeoutMs, signal }: Parameters<AskNode>[0]): Promise<NodeAnswer> {
  const target = targetOf(url)
  if (target === undefined)
    return Promise.reject(new NotAnswered('failed', 'its URL is none that can be asked'))
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
        // The timer above is for all of it.
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      {
        onRequestStart(given) {
          controller = given
          // It was given up while it waited for a connection.
          if (isOver) given.abort(new NotAnswered('late', lateMessage))
        },
        onResponseStart(_controller, code) {
          status = code
          if (redirects.has(code)) fail(new NotAnswered('failed', 'unexpected redirect'))
        },
        onResponseData(_controller, chunk) {
          length += chunk.length
          if (length > maxAnswerBytes) fail(new NotAnswered('long', longMessage(maxAnswerBytes)))
          else chunks.push(Buffer.from(chunk))
        },
        onResponseEnd() {
          if (!end()) return
          const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
          resolve({ status, text: bytes.toString('utf8') })
        },
        onResponseError(_controller, error) {
          const told = toNotAnswered(error)
          // A node that ends one ends them all, and whoever asks once more needs one that is there.
          if (told.kind === 'broken') target.pool.dropIdle()
          fail(told)
        },
      },
    )
  })
}

/** Where a URL leads; path and query may be the provider's key. */
interface Target {
  readonly pool: Http1Pool
  readonly path: string
  readonly headers: readonly string[]
}

/** By URL: those of the configuration. */
const targets = new Map<string, Target | undefined>()
/** By origin. Their idle connections end by themselves and hold up no process. */
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
    // Some providers take no request without one; it is what Node's own client says.
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
  /** Of an earlier connection: the next one needs a round trip less. */
  let session: Buffer | undefined
  const open: Http1PoolOptions['open'] = (onBytes) =>
    new Promise<Socket>((resolve, reject) => {
      const read = { ...where, onread: Http1Connection.reading(onBytes) }
      const socket = isSecure
        ? connectTls({
            ...read,
            // RFC 6066, section 3: no SNI for an address. Node then checks the certificate against `host`.
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

/** Nothing of the error but its code, where the system gave one, and what our own client says. */
function toNotAnswered(error: Error): NotAnswered {
  if (error instanceof NotAnswered) return error
  const { code } = systemError(error instanceof EgressError ? error.cause : error)
  if (error instanceof EgressError && error.code === 'EGRESS_BROKEN')
    return new NotAnswered('broken', code === '' ? 'ECONNRESET' : code)
  if (brokenCodes.has(code)) return new NotAnswered('broken', code)
  if (code !== '') return new NotAnswered('failed', code)
  return new NotAnswered(
    'failed',
    error instanceof EgressError ? 'it answered no well-formed HTTP' : 'it can not be reached',
  )
}

/** Whether Node makes its own requests through the proxy that the environment names. */
function usesProxy(): boolean {
  const flags = [...process.execArgv, ...(process.env['NODE_OPTIONS'] ?? '').split(' ')]
  return process.env['NODE_USE_ENV_PROXY'] === '1' || flags.includes('--use-env-proxy')
}
