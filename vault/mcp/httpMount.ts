import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import {
  ErrorCode,
  isInitializeRequest,
  isJSONRPCRequest,
  type RequestId,
} from '@modelcontextprotocol/sdk/types.js'
import type { Log } from '../../core/ports/log.ts'
import { isVaultError, VaultError } from '../errors/error.ts'
import type { Caller } from '../host/caller.ts'
import { createRate } from '../host/rate.ts'
import type { VaultApi } from '../host/vaultApi.ts'
import { requestIdOf } from '../http/incoming.ts'
import { readBodyText } from '../http/readBody.ts'
import type { Mount } from '../http/server.ts'
import { systemVaultClock, type VaultClock } from '../ports/clock.ts'
import { type CallOrigin, createMcpServer, createMcpTools } from './createMcpServer.ts'
import { sendRpcError } from './jsonRpcError.ts'
import { readMessageText } from './messageText.ts'
import { createSessions, MOST_SESSIONS_PER_AGENT, type Session } from './sessions.ts'

export interface McpMount extends Mount {
  /** Sessions that are open now. */
  readonly sessionCount: number
  /** Ends every session. */
  close(): Promise<void>
}

/**
 * `/mcp`: the Model Context Protocol over streamable HTTP, with sessions. Host and Origin were checked and the token was
 * read before a request comes here; only agents pass, and a session is its agent's alone.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
 */
export function createMcpMount(api: VaultApi, log: Log, clock: VaultClock = systemVaultClock): McpMount {
  const tools = createMcpTools(api)
  const sessions = createSessions(clock)
  const takeOne = createRate(clock)
  // A token that is worth nothing any more must not keep a stream that it opened.
  const unwatch = api.registry.onTokenEnd((agentId) => void sessions.endOf(agentId))

  async function handle(req: IncomingMessage, res: ServerResponse, caller: Caller): Promise<void> {
    const requestId = requestIdOf(req)
    res.setHeader('x-request-id', requestId)
    res.setHeader('x-content-type-options', 'nosniff')
    res.setHeader('cache-control', 'no-store')
    try {
      await serve(req, res, agentIdOf(caller), requestId)
    } catch (error) {
      if (!isVaultError(error)) log.error({ err: error, requestId }, 'unexpected error')
      refuse(res, error)
    }
  }

  async function serve(req: IncomingMessage, res: ServerResponse, agentId: string, requestId: string) {
    if (req.url!.split('?', 1)[0] !== mcpPath) throw new VaultError('NOT_FOUND')
    if (!methods.includes(req.method!)) throw new VaultError('METHOD_NOT_ALLOWED')
    await sessions.sweep()
    let message: unknown
    try {
      message = req.method === 'POST' ? await readMessage(req) : undefined
    } catch (error) {
      return refuse(res, error, ErrorCode.ParseError)
    }
    // While the body came in, the agent may have been revoked, and the client may have gone.
    if (api.agentOf(agentId)?.revokedAt !== null) throw new VaultError('UNAUTHORIZED')
    if (res.destroyed) return
    for (const method of methodsOf(message)) if (method !== 'tools/call') takeOne(agentId, MOST_MESSAGES)
    const given = req.headers['mcp-session-id']
    if (given === undefined && methodOf(message) === 'initialize')
      return begin(req, res, agentId, requestId, message)
    if (given === undefined)
      throw new VaultError('VALIDATION_ERROR', 'Expected mcp-session-id, or an initialize request.')
    const session = sessions.get(String(given))
    // To anybody else it does not exist: an id alone opens nothing.
    if (session?.agentId !== agentId)
      throw new VaultError('NOT_FOUND', 'There is no such session; initialize again.')
    await pass(session, req, res, requestId, message)
  }

  async function begin(
    req: IncomingMessage,
    res: ServerResponse,
    agentId: string,
    requestId: string,
    message: unknown,
  ): Promise<void> {
    if (!isJSONRPCRequest(message) || !isInitializeRequest(message))
      throw new VaultError(
        'VALIDATION_ERROR',
        'initialize: Expected an id and params {protocolVersion, capabilities, clientInfo: {name, version}}.',
      )
    const session = open(agentId)
    if (!sessions.add(session))
      throw new VaultError(
        'RATE_LIMIT_EXCEEDED',
        `Expected at most ${MOST_SESSIONS_PER_AGENT} sessions in use at a time.`,
        { retryAfterSeconds: 30 },
      )
    try {
      await pass(session, req, res, requestId, message)
    } finally {
      // It was refused after all, for its Accept header for example.
      if (session.transport.sessionId === undefined) {
        sessions.delete(session.id)
        await session.server.close()
      }
    }
  }

  function open(agentId: string): Session {
    const id = randomUUID()
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => id })
    const idsUnderWay = new Map<RequestId, number>()
    const server = createMcpServer({
      api,
      tools,
      agentId,
      log,
      onCancelled: (rpcId) => void giveUp(transport, rpcId, idsUnderWay.get(rpcId) === 1),
    })
    server.onclose = () => sessions.delete(id)
    const lastUsedMs = clock.monotonicMs()
    return { id, agentId, transport, server, openRequests: 0, idsUnderWay, lastUsedMs }
  }

  /** Hands one HTTP request to its session. */
  async function pass(
    session: Session,
    req: IncomingMessage,
    res: ServerResponse,
    requestId: string,
    message: unknown,
  ): Promise<void> {
    const { transport, server, agentId, idsUnderWay } = session
    const ids = idsOf(message)
    if (new Set(ids).size !== ids.length || ids.some((id) => idsUnderWay.has(id)))
      throw new VaultError('VALIDATION_ERROR', 'Expected an id that no request under way has.')
    const gone = new AbortController()
    const origin: CallOrigin = { requestId, gone: gone.signal }
    for (const id of ids) idsUnderWay.set(id, ids.length)
    session.openRequests++
    session.lastUsedMs = clock.monotonicMs()
    res.once('close', () => {
      gone.abort()
      for (const id of ids) idsUnderWay.delete(id)
      session.openRequests--
      session.lastUsedMs = clock.monotonicMs()
    })
    if (transport.onclose === undefined) await server.connect(transport as Transport)
    const auth = { token: '', clientId: agentId, scopes: [], extra: { origin } }
    await transport.handleRequest(Object.assign(req, { auth }), res, message)
  }

  return {
    path: mcpPath,
    // Clients may name the vault's own address as their origin, and the conformance suite does.
    isPage: true,
    handle,
    get sessionCount() {
      return sessions.size
    },
    async close() {
      unwatch()
      await sessions.close()
    },
  }
}

export const mcpPath = '/mcp'
const methods: readonly string[] = ['POST', 'GET', 'DELETE']

/** Only agents: whoever holds the owner's credential has no business here, and nobody in particular has none either. */
function agentIdOf(caller: Caller): string {
  if (caller.kind === 'agent') return caller.agent.id
  throw new VaultError('UNAUTHORIZED', "Expected an agent's token: Authorization: Bearer vat_….")
}

function refuse(res: ServerResponse, error: unknown, code?: number): void {
  if (res.headersSent || res.destroyed) return
  const status = isVaultError(error) ? error.status : 500
  // RFC 6750, section 3, and RFC 9110, section 15.5.6: what is expected instead.
  if (status === 401) res.setHeader('www-authenticate', 'Bearer')
  if (status === 405) res.setHeader('allow', methods.join(', '))
  sendRpcError(res, status, error, code)
}

/** Messages of one agent a minute that call no tool: a list of the tools alone is 12 KB. Calls have the agent's own rate. */
const MOST_MESSAGES = 600

/** Of a message, or of each one in a batch. */
const methodsOf = (message: unknown): unknown[] =>
  (Array.isArray(message) ? message : [message]).map(methodOf)

const methodOf = (message: unknown): unknown => (message as { method?: unknown } | null | undefined)?.method

/** The ids of the requests in a message or a batch of them; ids that make no sense are refused by the transport. */
const idsOf = (message: unknown): RequestId[] =>
  (Array.isArray(message) ? message : [message]).flatMap((one) => {
    const { id, method } = (one ?? {}) as { id?: unknown; method?: unknown }
    return method !== undefined && (typeof id === 'string' || typeof id === 'number') ? [id] : []
  })

/**
 * Ends what a cancelled request left open. The SDK answers it no more, so its stream would stay open for as long as the
 * client does. The stream of a batch goes on for the other requests in it, and is told instead.
 */
async function giveUp(
  transport: StreamableHTTPServerTransport,
  id: RequestId,
  isAlone: boolean,
): Promise<void> {
  if (isAlone) transport.closeSSEStream(id)
  const error = { code: ErrorCode.ConnectionClosed, message: 'The request was cancelled.' }
  // After the stream was closed this reaches nobody: it makes the transport forget the id.
  await transport.send({ jsonrpc: '2.0', id, error }).catch(() => undefined)
}

/**
 * The JSON of a POST, at most 256 KiB, read as strictly as every other body of the vault.
 *
 * @throws `PAYLOAD_TOO_LARGE`, `UNSUPPORTED_MEDIA_TYPE` (compressed), `VALIDATION_ERROR` (no JSON, or JSON with two meanings)
 */
async function readMessage(req: IncomingMessage): Promise<unknown> {
  return readMessageText(await readBodyText(req))
}
