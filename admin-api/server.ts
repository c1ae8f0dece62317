import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import fastify, { type FastifyInstance, type HTTPMethods } from 'fastify'
import { TollgateError } from '../core/errors/error.ts'
import { requestIdOf } from '../core/http/caller.ts'
import { closeInStages, cutterOfUnfinished, lingerOnClose } from '../core/http/lingeringClose.ts'
import { type AdminApiDeps, type Api, type Feature, type StartJob, settleOptions } from './deps.ts'
import { features as allFeatures } from './features.ts'
import { describeApi } from './http/apiDocument.ts'
import { authenticate, refuseEnded } from './http/callers.ts'
import { responseErrors, sendError } from './http/errors.ts'
import { addHeaders, readJsonBodies } from './http/messages.ts'
import { createValidators } from './http/validation.ts'

const MAX_BODY_BYTES = 1_048_576
/**
 * Maximum time for a request to arrive, in ms. The longest response, to saving a link with its health check, takes a third of it.
 */
const REQUEST_TIMEOUT_MS = 30_000
/** Time for the rest of a partly received request when the API stops, in ms. */
const LAST_BYTES_MS = 1_000

interface Address {
  readonly host: string
  readonly port: number
}

/** The paths that the operator's tools read. */
const monitored = /^\/(metrics|healthz|readyz)(\?|$)/

/** The control plane: every marketplace route except calls of links. */
export interface AdminApi {
  /** Starts to listen, and starts the features' jobs. Port 0 uses a free port. @returns the actual address */
  listen(address: Address): Promise<Address>
  /** Serves only the operator's tools on a port of their own. @returns the actual address */
  listenForMonitoring(address: Address): Promise<Address>
  /** Closes idle connections, and waits for requests and jobs in progress. */
  close(): Promise<void>
  /** Handles a request without a socket, for tests. */
  inject: FastifyInstance['inject']
}

/**
 * Creates the admin API over its ports. Nothing is opened before `listen`.
 *
 * @example
 * const admin = await createAdminApi(deps)
 * const { port } = await admin.listen({ host: '127.0.0.1', port: 8081 })
 */
export async function createAdminApi(
  deps: AdminApiDeps,
  features: readonly Feature[] = allFeatures,
): Promise<AdminApi> {
  const api = settleOptions(deps)
  const app = fastify({
    logger: false,
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    trustProxy: deps.options?.trustProxy ?? 'loopback',
    requestIdHeader: false,
    genReqId: ({ headers }) => requestIdOf(headers['x-request-id'] as string | undefined),
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 512 },
    frameworkErrors: (error, request, reply) => void sendError(error, request, reply, api.log),
    clientErrorHandler: answerBrokenRequest,
  })
  lingerOnClose(app.server)
  const cutUnfinished = cutterOfUnfinished(app.server)
  app.setValidatorCompiler(createValidators())
  app.setSerializerCompiler(() => JSON.stringify)
  responseErrors(app, api.log)
  readJsonBodies(app)
  app.decorateRequest('caller', null)
  const addRefusals = refuseOtherMethods(app)
  await addHeaders(app, api)
  await describeApi(app, api, features)
  for (const feature of features) await app.register(async (scope) => addRoutes(scope, api, feature))
  addRefusals()
  // A new operator token ends all operator sessions. Otherwise they would be valid again if the old token were restored.
  await api.operators.endOfOtherCredentials(null)
  await app.ready()

  const jobs: ReturnType<StartJob>[] = []
  const monitoring = createServer((request, response) => {
    if (!monitored.test(request.url!)) return void response.writeHead(404).end()
    // A mesh or a probe may add this header, but only the operator can reach this port.
    delete request.headers['x-forwarded-for']
    app.routing(request, response)
  })
  return {
    async listen({ host, port }) {
      await app.listen({ host, port })
      for (const feature of features) for (const start of feature.jobs ?? []) jobs.push(start(api))
      const bound = app.server.address() as AddressInfo
      return { host: bound.address, port: bound.port }
    },
    async listenForMonitoring({ host, port }) {
      monitoring.listen(port, host)
      await once(monitoring, 'listening')
      const bound = monitoring.address() as AddressInfo
      return { host: bound.address, port: bound.port }
    },
    async close() {
      const stopped = Promise.all(jobs.map((job) => job.stop()))
      monitoring.close()
      monitoring.closeIdleConnections()
      const cut = setTimeout(cutUnfinished, LAST_BYTES_MS)
      await app.close()
      clearTimeout(cut)
      await stopped
    },
    inject: app.inject.bind(app) as FastifyInstance['inject'],
  }
}

async function addRoutes(scope: FastifyInstance, api: Api, feature: Feature): Promise<void> {
  const { name, publicRoutes = [], storeRoutes = [] } = feature
  scope.addHook('onRoute', (route) => {
    route.schema = { ...route.schema, tags: [name] }
  })
  for (const add of publicRoutes) await add(scope, api)
  await scope.register(async (own) => {
    own.addHook('onRequest', authenticate(api))
    own.addHook('preValidation', async (request) => refuseEnded(api, request))
    own.addHook('onRoute', (route) => {
      // Any route may refuse a browser session, because the request has to come from a page of this service.
      const response = { 403: { $ref: 'Error#' }, ...(route.schema?.response as object) }
      route.schema = { security: [{ apiKey: [] }], ...route.schema, response }
    })
    for (const add of storeRoutes) await add(own, api)
  })
}

/** Also sends an error in the envelope for bytes that are not HTTP, if the socket can still be written. */
function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const requestId = requestIdOf(undefined)
  const [status, message] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? [
          '431 Request Header Fields Too Large',
          'The request headers are too large. Send fewer or shorter headers.',
        ]
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'The request did not arrive in time.']
        : ['400 Bad Request', 'Expected a well-formed HTTP request.']
  const body = JSON.stringify({
    success: false,
    error: { code: 'VALIDATION_ERROR', message, requestId, retryable: false },
  })
  socket.write(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\nx-request-id: ${requestId}\r\nconnection: close\r\n\r\n${body}`,
  )
  closeInStages(socket)
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether methods that the route lacks get a 404 instead of a 405. */
    answers404?: boolean
  }
}

const answered: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

/**
 * Responds with 405 and `Allow` if an address exists, but not for the method (RFC 9110, section 15.5.6). Without this function, the
 * framework would send a 404. Call it before the routes are added, and call the returned function after them.
 *
 * A route with `answers404: true` in its config is an exception. Otherwise the page for single-segment paths would turn each
 * unknown address into a 405.
 */
function refuseOtherMethods(app: FastifyInstance): () => void {
  const methodsOf = new Map<string, Set<string>>()
  app.addHook('onRoute', (route) => {
    if (route.url.includes('*') || route.config?.answers404) return
    const methods = methodsOf.get(route.url) ?? new Set()
    for (const method of [route.method].flat()) methods.add(method)
    methodsOf.set(route.url, methods)
  })
  return () => {
    for (const [url, present] of [...methodsOf]) {
      if (url !== '/' && url.endsWith('/')) continue
      const allow = [...present].sort().join(', ')
      const missing = answered.filter((method) => !present.has(method))
      if (missing.length === 0) continue
      app.route({
        method: missing,
        url,
        exposeHeadRoute: false,
        schema: { hide: true },
        // The response is sent before the body is read, because it does not depend on the body.
        onRequest: async (request, reply) => {
          reply.header('allow', allow)
          throw new TollgateError(
            'METHOD_NOT_ALLOWED',
            `${request.method} is not allowed here. Use ${allow}.`,
          )
        },
        handler: async () => undefined,
      })
    }
  }
}
