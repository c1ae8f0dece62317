import type { RequestId } from '@modelcontextprotocol/sdk/types.js'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import { isLoopback } from '../../core/http/caller.ts'
import { isObject } from '../../core/x402/strictJson.ts'
import type { Api } from '../deps.ts'
import { MINUTE_MS, refuse, takeForClient } from '../http/callers.ts'
import { toTollgateError } from '../http/errors.ts'
import type { CallsUnderWay } from './mcpServer.ts'
import type { ApiDocument } from './operation.ts'
import type { RouteRequest, RouteResponse, ToolContext } from './tool.ts'

/** Maximum number of messages of a batch. Only version 2025-03-26 has batches, and clients send short ones. */
const MAX_MESSAGES = 20
/** The code for an invalid request (JSON-RPC 2.0, section 5.1). */
const INVALID_REQUEST = -32_600

/**
 * `/mcp` is the Model Context Protocol over streamable HTTP, for every client. The server's only state between requests is the
 * calls in progress. An MCP session is only a name by which a client can cancel its own calls. The server opens no stream and has
 * no session to end, so GET and DELETE get a 405.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
 */
export async function mcpRoutes(app: FastifyInstance, api: Api): Promise<void> {
  const underWay: CallsUnderWay = new Map()
  let loading: ReturnType<typeof load> | undefined

  await app.register(async (scope) => {
    scope.setErrorHandler((error, request, reply) => sendRpcError(error, request, reply, api))
    const onRequest = async ({ headers }: FastifyRequest) => refuseOtherOrigins(api, headers.origin)
    scope.post('/mcp', { schema: { hide: true }, onRequest }, async (request, reply) => {
      const messages = readMessages(request.body)
      const { mcpPerMinute } = api.limits
      const taken = await takeForClient(api, request, 'mcp', mcpPerMinute, MINUTE_MS, messages.length)
      if (!taken.ok) refuse(api, reply, taken, mcpPerMinute)
      loading ??= load(app, api)
      const { toolbox, callKey, serveMcp } = await loading
      const session = sessionOf(request)
      for (const id of messages.flatMap(cancelledBy))
        if (session !== undefined) underWay.get(callKey(session, id))?.()
      await serveMcp(request, reply, {
        api,
        toolbox,
        underWay,
        session,
        context: contextOf(app, api, request),
        ids: messages.flatMap(idOf),
        begins: messages.some(({ method }) => method === 'initialize'),
      })
    })
  })
}

/** Loads the MCP server at the first request, so that it costs no start time and no memory before that (bench/start.ts). */
async function load(app: FastifyInstance, api: Api) {
  const [{ callKey, createToolbox, serveMcp }, { createTools }] = await Promise.all([
    import('./mcpServer.ts'),
    import('./toolTable.ts'),
  ])
  return { callKey, serveMcp, toolbox: createToolbox(createTools(api, app.swagger() as ApiDocument)) }
}

type Message = Readonly<Record<string, unknown>>

/** Refuses messages that the SDK would misread, or to which it would respond with a wrong id. @throws `VALIDATION_ERROR` */
function readMessages(body: unknown): readonly Message[] {
  const messages = [body].flat()
  const ids = messages.flatMap((message) => (isObject(message) ? idOf(message) : []))
  const areDistinct = new Set(ids).size === ids.length
  if (messages.length > 0 && messages.length <= MAX_MESSAGES && messages.every(isObject) && areDistinct)
    return messages
  throw new TollgateError(
    'VALIDATION_ERROR',
    `Expected a JSON-RPC message, or up to ${MAX_MESSAGES} with different ids, as the JSON body.`,
  )
}

const isId = (id: unknown): id is RequestId => typeof id === 'string' || typeof id === 'number'
const idOf = ({ id, method }: Message): RequestId[] => (isId(id) && typeof method === 'string' ? [id] : [])

function cancelledBy({ method, params }: Message): RequestId[] {
  if (method !== 'notifications/cancelled' || !isObject(params)) return []
  const { requestId } = params
  return isId(requestId) ? [requestId] : []
}

function sessionOf({ headers }: FastifyRequest): string | undefined {
  const session = headers['mcp-session-id']
  return typeof session === 'string' && /^[\x21-\x7e]{1,128}$/.test(session) ? session : undefined
}

/**
 * The context of tool calls. A tool calls the routes within this process, as the caller and with the routes' limits and schemas.
 */
function contextOf(
  app: FastifyInstance,
  api: Api,
  request: FastifyRequest,
): Omit<ToolContext, 'signal' | 'meta'> {
  const { authorization } = request.headers
  return {
    requestId: request.id,
    clientIp: request.ip,
    async callRoute({ method, url, headers, body }: RouteRequest): Promise<RouteResponse> {
      const response = await app.inject({
        method: method as 'GET',
        url,
        remoteAddress: request.ip,
        headers: {
          'x-request-id': request.id,
          ...(authorization !== undefined && { authorization }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { payload: JSON.stringify(body) }),
      })
      return { status: response.statusCode, headers: response.headers, body: response.json() }
    },
    async take(name, limit, windowMs) {
      const taken = await takeForClient(api, request, name, limit, windowMs)
      if (taken.ok) return
      const retryAfterSeconds = Math.max(1, Math.ceil((taken.resetAtMs - api.clock.now()) / 1000))
      const message = `Too many requests: the limit is ${limit}. Try again in ${retryAfterSeconds} s.`
      throw new TollgateError('RATE_LIMIT_EXCEEDED', message, { retryAfterSeconds })
    },
  }
}

/**
 * Refuses requests from pages of other origins. Otherwise a page could point its own name at this address and so reach a service on
 * its visitor's machine (DNS rebinding; MCP, transports, "Security warning"). Clients that are not pages send no Origin.
 */
function refuseOtherOrigins({ publicUrl }: Api, origin: string | undefined): void {
  if (origin === undefined || origin === new URL(publicUrl).origin) return
  if (URL.canParse(origin) && isLoopback(new URL(origin).hostname)) return
  throw new TollgateError(
    'FORBIDDEN',
    'Expected a request without an Origin or from a page of this service, but this request came from a page of another origin.',
  )
}

/** Sends an error by JSON-RPC 2.0, section 5.1, with code -32000 like the protocol's SDK. `data` is the error of this API. */
function sendRpcError(thrown: unknown, request: FastifyRequest, reply: FastifyReply, api: Api): FastifyReply {
  const { status, code, message, retryable, retryAfterSeconds } = toTollgateError(thrown)
  if (status >= 500) api.log.error({ err: thrown, requestId: request.id }, 'an MCP request failed')
  if (retryAfterSeconds !== undefined) reply.header('retry-after', retryAfterSeconds)
  const isUnread = isTollgateError(thrown) && code === 'VALIDATION_ERROR'
  const data = { code, message, requestId: request.id, retryable }
  const error = { code: isUnread ? INVALID_REQUEST : -32_000, message, data }
  return reply
    .code(status)
    .type('application/json; charset=utf-8')
    .serializer(JSON.stringify)
    .send({ jsonrpc: '2.0', error, id: null })
}
