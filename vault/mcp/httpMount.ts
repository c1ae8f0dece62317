import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Server } from '@modelcontextprotocol/sdk/server/index.js'
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
import { type Caller, createRate } from '../host/caller.ts'
import type { VaultApi } from '../host/createVaultApi.ts'
import type { Mount } from '../http/server.ts'
import { readBodyText, requestIdOf } from '../loopback/callers.ts'
import { systemVaultClock, type VaultClock } from '../ports/clock.ts'
import { type CallOrigin, createMcpServer, createMcpTools } from './createMcpServer.ts'
import { readMessageText, sendRpcError } from './jsonRpc.ts'

export interface McpMount extends Mount {
  /** Open MCP sessions. */
  readonly sessionCount: number
  /** Ends every MCP session. */
  close(): Promise<void>
}

/**
 * `/mcp`: the Model Context Protocol over streamable HTTP, with sessions. The guard has checked Host, Origin and token
 * before a request arrives here. Only agents are admitted, and an MCP session belongs to one agent.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
 */
export function createMcpMount(api: VaultApi, log: Log, clock: VaultClock = systemVaultClock): McpMount {
  const tools = createMcpTools(api)
  const sessions = createSessions(clock)
  const takeOne = createRate(clock)
  // If a token ends, the streams that it opened must end too.
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
      message = req.method === 'POST' ? readMessageText(await readBodyText(req)) : undefined
    } catch (error) {
      return refuse(res, error, ErrorCode.ParseError)
    }
    // While the body was read, the agent may have been revoked, or the client may have disconnected.
    if (api.agentOf(agentId)?.revokedAt !== null) throw new VaultError('UNAUTHORIZED')
    if (res.destroyed) return
    for (const method of methodsOf(message)) if (method !== 'tools/call') takeOne(agentId, MAX_MESSAGES)
    const given = req.headers['mcp-session-id']
    if (given === undefined && methodOf(message) === 'initialize')
      return begin(req, res, agentId, requestId, message)
    if (given === undefined)
      throw new VaultError('VALIDATION_ERROR', 'Expected mcp-session-id, or an initialize request.')
    const session = sessions.get(String(given))
    // Another agent gets the same response as for an unknown session, because the id alone must give no access.
    if (session?.agentId !== agentId)
      throw new VaultError('NOT_FOUND', 'This MCP session does not exist. Initialize again.')
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
        `Expected at most ${MAX_SESSIONS_PER_AGENT} MCP sessions in use per agent.`,
        { retryAfterSeconds: 30 },
      )
    try {
      await pass(session, req, res, requestId, message)
    } finally {
      // The transport refused the request, for example because of its Accept header.
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

  /** Passes an HTTP request to its MCP session. */
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
      throw new VaultError('VALIDATION_ERROR', 'Expected an id that no request in flight has.')
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
    // The vault's own origin may call this, because some clients and the conformance suite send it.
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

/** The id of the calling agent. The owner and unauthenticated callers are refused. */
function agentIdOf(caller: Caller): string {
  if (caller.kind === 'agent') return caller.agent.id
  throw new VaultError('UNAUTHORIZED', "Expected an agent's token: Authorization: Bearer vat_….")
}

function refuse(res: ServerResponse, error: unknown, code?: number): void {
  if (res.headersSent || res.destroyed) return
  const status = isVaultError(error) ? error.status : 500
  // The header that the status requires (RFC 6750, section 3, and RFC 9110, section 15.5.6).
  if (status === 401) res.setHeader('www-authenticate', 'Bearer')
  if (status === 405) res.setHeader('allow', methods.join(', '))
  sendRpcError(res, status, error, code)
}

/**
 * Maximum messages per minute and agent that call no tool. The list of the tools alone is 12 KB. The agent's own rate limits
 * the calls.
 */
const MAX_MESSAGES = 600

/** The methods of a message, or of each one in a batch. */
const methodsOf = (message: unknown): unknown[] =>
  (Array.isArray(message) ? message : [message]).map(methodOf)

const methodOf = (message: unknown): unknown => (message as { method?: unknown } | null | undefined)?.method

/** The ids of the requests in a message or a batch. The transport refuses invalid ids. */
const idsOf = (message: unknown): RequestId[] =>
  (Array.isArray(message) ? message : [message]).flatMap((one) => {
    const { id, method } = (one ?? {}) as { id?: unknown; method?: unknown }
    return method !== undefined && (typeof id === 'string' || typeof id === 'number') ? [id] : []
  })

/**
 * Closes the stream of a cancelled request. The SDK sends no response to the request, so its stream would stay open as long as
 * the client does. The stream of a batch stays open for its other requests, and gets an error for this request.
 */
async function giveUp(
  transport: StreamableHTTPServerTransport,
  id: RequestId,
  isAlone: boolean,
): Promise<void> {
  if (isAlone) transport.closeSSEStream(id)
  const error = { code: ErrorCode.ConnectionClosed, message: 'The request was cancelled.' }
  // The stream is closed, so this message reaches no client. It makes the transport forget the id.
  await transport.send({ jsonrpc: '2.0', id, error }).catch(() => undefined)
}

const body = JSON.stringify({
  error: 'access_denied',
  error_description:
    "This vault has no OAuth. Configure your client to send the header Authorization: Bearer vat_… with an agent's token, as printed by `tollgate vault agents add`.",
})

/**
 * Refuses OAuth at `/register`. After a 401, many MCP clients look for OAuth metadata, find none, and try to register
 * themselves at this path (RFC 7591, section 3.2.2). They then show this error.
 */
export const oauthRefusal: Mount = {
  path: '/register',
  isPage: false,
  handle(_req, res) {
    res
      .writeHead(400, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'cache-control': 'no-store',
      })
      .end(body)
  },
}

/** One client's MCP session. It belongs to one agent and has any number of HTTP requests. */
interface Session {
  readonly id: string
  readonly agentId: string
  readonly transport: StreamableHTTPServerTransport
  readonly server: Server
  /** Number of HTTP requests whose response has not ended, including an open event stream. */
  openRequests: number
  /**
   * Ids of running JSON-RPC requests, each with the number of requests in its message. An id that is in use is refused, because
   * the two requests could not be distinguished.
   */
  readonly idsUnderWay: Map<string | number, number>
  lastUsedMs: number
}

/** Maximum sessions per agent. A client that crashes repeatedly must not fill the memory. */
const MAX_SESSIONS_PER_AGENT = 32
/** How long an idle session lives, in ms. Its client then gets 404 and starts another one, as the protocol requires. */
const IDLE_SESSION_MS = 30 * 60_000
const SWEEP_MS = 60_000

interface Sessions {
  get(id: string): Session | undefined
  /** @returns false if the agent has the maximum number of sessions and all are in use */
  add(session: Session): boolean
  /** Removes a session from the table. The caller closes it. */
  delete(id: string): void
  /** Ends every session of an agent and closes its streams. */
  endOf(agentId: string): Promise<void>
  /** Ends sessions that were idle for too long. */
  sweep(): Promise<void>
  readonly size: number
  close(): Promise<void>
}

function createSessions(clock: VaultClock): Sessions {
  const byId = new Map<string, Session>()
  const timer = setInterval(() => void sweep(), SWEEP_MS)
  timer.unref()

  const end = async (ending: readonly Session[]): Promise<void> => {
    for (const { id } of ending) byId.delete(id)
    await Promise.all(ending.map(({ server }) => server.close()))
  }
  const all = (): Session[] => [...byId.values()]
  const isIdle = ({ openRequests, lastUsedMs }: Session): boolean =>
    openRequests === 0 && clock.monotonicMs() - lastUsedMs >= IDLE_SESSION_MS
  const sweep = (): Promise<void> => end(all().filter(isIdle))

  return {
    get: (id) => byId.get(id),
    add(session) {
      const own = all().filter(({ agentId }) => agentId === session.agentId)
      if (own.length >= MAX_SESSIONS_PER_AGENT) {
        // A client can disappear without closing its session. Most likely it is the session that was idle longest.
        const unused = own.filter(({ openRequests }) => openRequests === 0)
        const [oldest] = unused.sort((a, b) => a.lastUsedMs - b.lastUsedMs)
        if (oldest === undefined) return false
        void end([oldest])
      }
      byId.set(session.id, session)
      return true
    },
    delete: (id) => void byId.delete(id),
    endOf: (agentId) => end(all().filter((session) => session.agentId === agentId)),
    sweep,
    get size() {
      return byId.size
    },
    async close() {
      clearInterval(timer)
      await end(all())
    },
  }
}
