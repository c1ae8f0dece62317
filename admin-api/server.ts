import type { AddressInfo, Socket } from 'node:net'
import cors from '@fastify/cors'
import helmet from '@fastify/helmet'
import fastify, { type FastifyInstance } from 'fastify'
import { closeInStages, lingerOnClose } from '../core/http/lingeringClose.ts'
import { authenticate } from './auth/authenticate.ts'
import { createKeyRing, type KeyRing } from './auth/keyRing.ts'
import { type AdminApiDeps, type Api, settleOptions } from './deps.ts'
import { answerErrors, sendError } from './errors.ts'
import { readJsonBodies } from './http/jsonBodies.ts'
import { refuseOtherMethods } from './http/methodNotAllowed.ts'
import { requestIdOf } from './http/requestId.ts'
import { keyRoutes } from './routes/agent/keyRoutes.ts'
import { nonceRoute } from './routes/agent/nonceRoute.ts'
import { signupRoute } from './routes/agent/signupRoute.ts'
import { describeApi } from './routes/docs/describeApi.ts'
import { docsRoutes } from './routes/docs/docsRoutes.ts'
import { linkHealthRoutes } from './routes/links/linkHealthRoutes.ts'
import { linkRoutes } from './routes/links/linkRoutes.ts'
import { operatorRoutes } from './routes/operator/operatorRoutes.ts'
import { pageRoutes } from './routes/pages/pageRoutes.ts'
import { profileRoutes } from './routes/profile/profileRoutes.ts'
import { purchaseRoutes } from './routes/purchases/purchaseRoutes.ts'
import { refundRoute } from './routes/purchases/refundRoute.ts'
import { statsRoute } from './routes/stats/statsRoute.ts'
import { storeRoute } from './routes/store/storeRoute.ts'
import { withdrawalRoutes } from './routes/withdrawals/withdrawalRoutes.ts'
import { createValidators } from './schema/validators.ts'

const maxBodyBytes = 1_048_576
/** A request has to arrive in this time; the longest answer, a save with its health check, needs a third of it. */
const requestTimeoutMs = 30_000
/** What browsers on any origin may read: public answers that depend on no cookie and no key. */
const publicPath = /^\/(?:api\/store\/[^/]+|openapi\.json|healthz)(?:\?|$)/

/** The control plane: everything of the marketplace that is not a call of a link. */
export interface AdminApi {
  /** Starts to listen. Port 0 takes a free one. @returns where */
  listen(address: { host: string; port: number }): Promise<{ host: string; port: number }>
  /** Ends idle connections, lets requests under way finish. */
  close(): Promise<void>
  /** A request without a socket, for tests. */
  inject: FastifyInstance['inject']
}

/**
 * Makes the admin API over its ports. Nothing is opened before `listen`.
 *
 * @example
 * const admin = await createAdminApi(deps)
 * const { port } = await admin.listen({ host: '127.0.0.1', port: 8081 })
 */
export async function createAdminApi(deps: AdminApiDeps): Promise<AdminApi> {
  const api = settleOptions(deps)
  const app = fastify({
    logger: false,
    bodyLimit: maxBodyBytes,
    requestTimeout: requestTimeoutMs,
    trustProxy: deps.options?.trustProxy ?? 'loopback',
    requestIdHeader: false,
    genReqId: requestIdOf,
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 512 },
    frameworkErrors: (error, request, reply) => void sendError(error, request, reply, api.log),
    clientErrorHandler: answerBrokenRequest,
  })
  lingerOnClose(app.server)
  app.setValidatorCompiler(createValidators())
  app.setSerializerCompiler(() => JSON.stringify)
  answerErrors(app, api.log)
  readJsonBodies(app)
  app.decorateRequest('caller', null)
  const addRefusals = refuseOtherMethods(app)
  await addHeaders(app, api)
  await describeApi(app, api)
  await addRoutes(app, api, createKeyRing(api))
  addRefusals()
  await app.ready()

  return {
    async listen({ host, port }) {
      await app.listen({ host, port })
      const bound = app.server.address() as AddressInfo
      return { host: bound.address, port: bound.port }
    },
    close: () => app.close(),
    inject: app.inject.bind(app) as FastifyInstance['inject'],
  }
}

async function addRoutes(app: FastifyInstance, api: Api, keyRing: KeyRing): Promise<void> {
  pageRoutes(app, api)
  operatorRoutes(app, api)
  nonceRoute(app, api)
  signupRoute(app, api, keyRing)
  storeRoute(app, api)
  await docsRoutes(app, api)
  await app.register(async (own) => {
    own.addHook('onRequest', authenticate(api, keyRing))
    own.addHook('onRoute', (route) => {
      route.schema = { ...route.schema, security: [{ apiKey: [] }] }
    })
    keyRoutes(own, api, keyRing)
    profileRoutes(own, api)
    linkRoutes(own, api)
    linkHealthRoutes(own, api)
    purchaseRoutes(own, api)
    refundRoute(own, api)
    statsRoute(own, api)
    withdrawalRoutes(own)
  })
}

/** What every answer carries; a route may say otherwise. */
async function addHeaders(app: FastifyInstance, api: Api): Promise<void> {
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id)
    reply.header('cache-control', 'no-store')
  })
  app.addHook('onResponse', async (request, reply) => {
    const { method, id: requestId, routeOptions } = request
    const { statusCode: status, elapsedTime } = reply
    api.log.debug(
      { requestId, method, route: routeOptions.url, status, ms: Math.round(elapsedTime) },
      'answered',
    )
  })
  await app.register(helmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"], baseUri: ["'none'"] },
    },
    strictTransportSecurity: api.publicUrl.startsWith('https:'),
    referrerPolicy: { policy: 'no-referrer' },
  })
  await app.register(cors, {
    delegator: (request, done) => {
      const isPublic = publicPath.test(request.url ?? '')
      const exposedHeaders = [
        'X-Request-Id',
        'X-RateLimit-Limit',
        'X-RateLimit-Remaining',
        'X-RateLimit-Reset',
        'Retry-After',
      ]
      done(
        null,
        isPublic
          ? { origin: '*', methods: ['GET', 'HEAD'], exposedHeaders, maxAge: 600, strictPreflight: false }
          : { origin: false },
      )
    },
  })
}

/** Bytes that are not HTTP get an answer in the envelope too, while the socket can still carry one. */
function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const requestId = requestIdOf({ headers: {} })
  const [status, message] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'The headers are larger than allowed.']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'The request did not arrive in time.']
        : ['400 Bad Request', 'This is not a well-formed HTTP request.']
  const body = JSON.stringify({
    success: false,
    error: { code: 'VALIDATION_ERROR', message, requestId, retryable: false },
  })
  socket.write(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\nx-request-id: ${requestId}\r\nconnection: close\r\n\r\n${body}`,
  )
  closeInStages(socket)
}
