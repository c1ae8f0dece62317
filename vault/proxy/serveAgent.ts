import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Log } from '../../core/ports/log.ts'
import { isVaultError, VaultError } from '../errors/error.ts'
import { errorBody } from '../errors/errorBody.ts'
import { abortOf, requestIdOf } from '../http/incoming.ts'
import { judgeRoute, methodsOf } from '../remote/allowedRoutes.ts'
import {
  answerHeaders,
  assertAllowed,
  callHeaders,
  MAX_BODY_BYTES,
  pickHeaders,
} from '../remote/remoteRequest.ts'
import { type CallerRules, judgeCaller } from './judgeCaller.ts'
import type { VaultClient } from './vaultClient.ts'

/** Calls of one agent at once; the vault takes fewer over the relay. */
const MAX_AT_ONCE = 64
/** And of those that need no token, beside them: whoever asks for them may be a stranger, and takes no agent's place. */
const MAX_OPEN_AT_ONCE = 4

export interface ServeAgent {
  /** Whose calls a request's are. @throws VaultError `UNAUTHORIZED`, `VAULT_LOCKED` */
  readonly clientOf: (request: IncomingMessage, isOpen: boolean) => ServedClient
  readonly rules: CallerRules
  readonly localUrl: string
  /** `local` where the vault itself is on this machine. */
  readonly mode: 'local' | 'proxy'
  readonly log: Log
}

export interface ServedClient extends Pick<VaultClient, 'call'> {
  /** Whose calls are counted together; left out where all are one agent's. */
  readonly countedAs?: string
}

/** What needs no token, and may be asked for by HEAD too. */
const openPaths: readonly string[] = ['/health', '/v1/capabilities']

/** Answers the agent's HTTP calls with what the vault says. One place for every header that goes out. */
export function serveAgent({ clientOf, rules, localUrl, mode, log }: ServeAgent): RequestListener {
  const atOnce = new Map<string, number>()

  async function forward(request: IncomingMessage, requestId: string, signal: AbortSignal): Promise<Reply> {
    const { url = '' } = request
    const [path = ''] = url.split('?', 1)
    const isOpen = openPaths.includes(path)
    judgeCaller(request, rules, isOpen)
    // Node leaves the body of its answer out.
    const method = isOpen && request.method === 'HEAD' ? 'GET' : (request.method ?? '')
    if (path === '/health' && method === 'GET') return healthy
    assertAllowed(method, url)
    const client = clientOf(request, isOpen)
    const body = await readBody(request)
    const isStranger = isOpen && rules.tokenHash !== undefined
    const who = isStranger ? 'stranger' : (client.countedAs ?? 'agent')
    const others = atOnce.get(who) ?? 0
    if (others >= (isStranger ? MAX_OPEN_AT_ONCE : MAX_AT_ONCE))
      throw new VaultError('RATE_LIMIT_EXCEEDED', undefined, { retryAfterSeconds: 1 })
    atOnce.set(who, others + 1)
    try {
      const headers = { ...callHeaders(request.headers), 'x-request-id': requestId }
      const { head, body: answer } = await client.call({
        method: method as 'GET' | 'POST',
        path: url,
        headers,
        body,
        signal,
      })
      const isCapabilities = path === '/v1/capabilities' && head['status'] === 200
      const own = isCapabilities ? ownCapabilities(answer, localUrl, mode) : undefined
      const fields = (head['headers'] ?? {}) as Record<string, unknown>
      return {
        status: Number(head['status']),
        headers: pickHeaders(fields, answerHeaders),
        body: own === undefined ? answer : Buffer.from(own),
      }
    } finally {
      const left = atOnce.get(who)! - 1
      if (left === 0) atOnce.delete(who)
      else atOnce.set(who, left)
    }
  }

  return (request, response) => {
    const requestId = requestIdOf(request)
    const signal = abortOf(response)
    forward(request, requestId, signal)
      .catch((error: unknown) => {
        // What breaks because the caller left is nobody's fault here.
        if (!isVaultError(error) && !signal.aborted) log.error({ err: error, requestId }, 'a call failed')
        return refusal(error, request)
      })
      .then((reply) => answer(request, response, requestId, reply))
  }
}

/** This program answers; whether the vault does is said by its answers. */
const healthy: Reply = { status: 200, headers: {}, body: Buffer.from('{"status":"ok"}') }

interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

function answer(request: IncomingMessage, response: ServerResponse, requestId: string, reply: Reply): void {
  // What was not read of a refused request is not worth reading.
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

function refusal(error: unknown, request: IncomingMessage): Reply {
  const shown = isVaultError(error) ? error : new VaultError('INTERNAL_ERROR')
  const headers: Record<string, string> = {}
  if (shown.code === 'METHOD_NOT_ALLOWED') headers['allow'] = methodsOf(request.url ?? '').join(', ')
  if (shown.retryAfterSeconds !== undefined) headers['retry-after'] = String(shown.retryAfterSeconds)
  return { status: shown.status, headers, body: Buffer.from(JSON.stringify(errorBody(shown))) }
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const { headers, method } = request
  const type = headers['content-type']?.split(';')[0]?.trim().toLowerCase()
  // A page can send a form or plain text anywhere; for JSON its browser must ask first, and is told no.
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

/** The proxy's name in its capabilities document; the vault has another. */
const proxyName = 'tollgate-proxy'

/**
 * The vault's capabilities document as the proxy's own: its name, its address, and of the routes those that it forwards.
 * Undefined when it is no such document.
 *
 * @param mode `local` where the vault itself is on this machine
 */
function ownCapabilities(body: Buffer, localUrl: string, mode: 'local' | 'proxy'): string | undefined {
  try {
    const document = JSON.parse(body.toString('utf8')) as Record<string, unknown>
    const routes = Array.isArray(document['routes']) ? document['routes'].filter(isForwarded) : []
    return JSON.stringify({ ...document, name: proxyName, mode, local_url: localUrl, routes })
  } catch {
    return undefined
  }
}

function isForwarded(route: unknown): boolean {
  const { method, path } = (route ?? {}) as { method?: unknown; path?: unknown }
  return typeof method === 'string' && typeof path === 'string' && judgeRoute(method, path) === 'allowed'
}
