import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Log } from '../../core/ports/log.ts'
import type { Message } from '../channel/message.ts'
import { errorBody, isVaultError, VaultError } from '../errors/error.ts'
import {
  assertAllowed,
  callHeaders,
  judgeRoute,
  MAX_BODY_BYTES,
  methodsOf,
  pickHeaders,
  type RemoteRoute,
  responseHeaders,
} from '../remote/remoteRequest.ts'
import { abortOf, type CallerRules, judgeCaller, requestIdOf } from './callers.ts'

/** Maximum concurrent calls of one agent. Over the relay the vault allows fewer. */
const MAX_AT_ONCE = 64
/** Maximum concurrent calls without a token. They are counted separately, so that strangers cannot use an agent's slots. */
const MAX_OPEN_AT_ONCE = 4

export interface ServeAgent {
  /** The routes that agents may call. */
  readonly routes: readonly RemoteRoute[]
  /** Returns the client of a request. @throws VaultError `UNAUTHORIZED`, `VAULT_LOCKED` */
  readonly clientOf: (request: IncomingMessage, isOpen: boolean) => ServedClient
  readonly rules: CallerRules
  readonly localUrl: string
  /** `local` where the vault itself is on this machine. */
  readonly mode: 'local' | 'proxy'
  readonly log: Log
}

/** One HTTP call of an agent, as the vault gets it. */
export interface VaultCall {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Aborted when the caller has disconnected. */
  readonly signal?: AbortSignal
}

export interface ServedClient {
  /** Makes one call to the vault. @throws VaultError when there is no response of the vault */
  call(request: VaultCall): Promise<Message>
  /** Calls with the same value share a limit. Absent if all calls belong to one agent. */
  readonly countedAs?: string
}

/** Paths without a token, also for HEAD. */
const openPaths: readonly string[] = ['/health', '/v1/capabilities']

/** Responds to the agent's HTTP calls with the vault's responses. Only this code sets response headers. */
export function serveAgent({ routes, clientOf, rules, localUrl, mode, log }: ServeAgent): RequestListener {
  const atOnce = new Map<string, number>()

  async function forward(request: IncomingMessage, requestId: string, signal: AbortSignal): Promise<Reply> {
    const { url = '' } = request
    const [path = ''] = url.split('?', 1)
    const isOpen = openPaths.includes(path)
    judgeCaller(request, rules, isOpen)
    // Node omits the body of a response to HEAD.
    const method = isOpen && request.method === 'HEAD' ? 'GET' : (request.method ?? '')
    if (path === '/health' && method === 'GET') return healthy
    assertAllowed(routes, method, url)
    const client = clientOf(request, isOpen)
    const body = await readBody(request)
    const isStranger = isOpen && rules.tokenHash !== undefined
    const account = isStranger ? 'stranger' : (client.countedAs ?? 'agent')
    const others = atOnce.get(account) ?? 0
    if (others >= (isStranger ? MAX_OPEN_AT_ONCE : MAX_AT_ONCE))
      throw new VaultError('RATE_LIMIT_EXCEEDED', undefined, { retryAfterSeconds: 1 })
    atOnce.set(account, others + 1)
    try {
      const headers = { ...callHeaders(request.headers), 'x-request-id': requestId }
      const { head, body: response } = await client.call({
        method: method as 'GET' | 'POST',
        path: url,
        headers,
        body,
        signal,
      })
      const isCapabilities = path === '/v1/capabilities' && head['status'] === 200
      const own = isCapabilities ? ownCapabilities(response, localUrl, mode, routes) : undefined
      const fields = (head['headers'] ?? {}) as Record<string, unknown>
      return {
        status: Number(head['status']),
        headers: pickHeaders(fields, responseHeaders),
        body: own === undefined ? response : Buffer.from(own),
      }
    } finally {
      const left = atOnce.get(account)! - 1
      if (left === 0) atOnce.delete(account)
      else atOnce.set(account, left)
    }
  }

  return (request, response) => {
    const requestId = requestIdOf(request)
    const signal = abortOf(response)
    forward(request, requestId, signal)
      .catch((error: unknown) => {
        // If the caller has disconnected, a failure is not an error.
        if (!isVaultError(error) && !signal.aborted) log.error({ err: error, requestId }, 'a call failed')
        return refusal(error, request, routes)
      })
      .then((reply) => respond(request, response, requestId, reply))
  }
}

/** The response of this program itself. It does not show whether the vault runs, but the other responses do. */
const healthy: Reply = { status: 200, headers: {}, body: Buffer.from('{"status":"ok"}') }

interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

function respond(request: IncomingMessage, response: ServerResponse, requestId: string, reply: Reply): void {
  // The connection closes, because the rest of a refused request is not read.
  if (!request.complete) response.setHeader('connection', 'close')
  response.writeHead(reply.status, {
    'content-type': 'application/json',
    ...reply.headers,
    'x-request-id': requestId,
    'content-length': reply.body.byteLength,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  })
  response.end(reply.body)
}

function refusal(error: unknown, request: IncomingMessage, routes: readonly RemoteRoute[]): Reply {
  const shown = isVaultError(error) ? error : new VaultError('INTERNAL_ERROR')
  const headers: Record<string, string> = {}
  if (shown.code === 'METHOD_NOT_ALLOWED') headers['allow'] = methodsOf(routes, request.url ?? '').join(', ')
  if (shown.retryAfterSeconds !== undefined) headers['retry-after'] = String(shown.retryAfterSeconds)
  return { status: shown.status, headers, body: Buffer.from(JSON.stringify(errorBody(shown))) }
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const { headers, method } = request
  const type = headers['content-type']?.split(';')[0]?.trim().toLowerCase()
  // A page can send a form or plain text to any address. For JSON, its browser first has to send a preflight, which is refused.
  if (method === 'POST' && type !== 'application/json') throw new VaultError('UNSUPPORTED_MEDIA_TYPE')
  if (Number(headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw new VaultError('PAYLOAD_TOO_LARGE')
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength
    if (bytes > MAX_BODY_BYTES) throw new VaultError('PAYLOAD_TOO_LARGE')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** The proxy's name in its capabilities document. The vault has another name. */
const proxyName = 'tollgate-proxy'

/**
 * The vault's capabilities document rewritten for the proxy: its name, its address, and only the routes that it forwards.
 * Undefined when the body is not such a document.
 *
 * @param mode `local` where the vault itself is on this machine
 */
function ownCapabilities(
  body: Buffer,
  localUrl: string,
  mode: 'local' | 'proxy',
  served: readonly RemoteRoute[],
): string | undefined {
  try {
    const document = JSON.parse(body.toString('utf8')) as Record<string, unknown>
    const routes = Array.isArray(document['routes'])
      ? document['routes'].filter((route) => isForwarded(route, served))
      : []
    return JSON.stringify({ ...document, name: proxyName, mode, local_url: localUrl, routes })
  } catch {
    return undefined
  }
}

function isForwarded(route: unknown, served: readonly RemoteRoute[]): boolean {
  const { method, path } = (route ?? {}) as { method?: unknown; path?: unknown }
  return (
    typeof method === 'string' && typeof path === 'string' && judgeRoute(served, method, path) === 'allowed'
  )
}
