import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import fastify, { type FastifyInstance } from 'fastify'
import { closeInStages, cutterOfUnfinished, lingerOnClose } from '../core/http/lingeringClose.ts'
import { requestIdOf } from '../core/http/requestId.ts'
import { authenticate, refuseEnded } from './auth/authenticate.ts'
import { type AdminApiDeps, type Api, settleOptions } from './deps.ts'
import { describeApi } from './docs/describeApi.ts'
import { answerErrors, sendError } from './errors.ts'
import type { Feature } from './feature.ts'
import { features as allFeatures } from './features.ts'
import { addHeaders } from './http/headers.ts'
import { readJsonBodies } from './http/jsonBodies.ts'
import { refuseOtherMethods } from './http/methodNotAllowed.ts'
import { createValidators } from './schema/validators.ts'

const MAX_BODY_BYTES = 1_048_576
/** A request has to arrive in this time; the longest answer, a save with its health check, needs a third of it. */
const REQUEST_TIMEOUT_MS = 30_000
/** What is still to come of a request when the API stops has to come in this time. */
const LAST_BYTES_MS = 1_000

interface Address {
  readonly host: string
  readonly port: number
}

/** What the operator's tools read. */
const monitored = /^\/(metrics|healthz|readyz)(\?|$)/

/** The control plane: everything of the marketplace that is not a call of a link. */
export interface AdminApi {
  /** Starts to listen, and the features' jobs. Port 0 takes a free one. @returns where */
  listen(address: Address): Promise<Address>
  /** Answers the operator's tools, and nothing else, on a port of their own. @returns where */
  listenForMonitoring(address: Address): Promise<Address>
  /** Ends idle connections, lets requests and jobs under way finish. */
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
  answerErrors(app, api.log)
  readJsonBodies(app)
  app.decorateRequest('caller', null)
  const addRefusals = refuseOtherMethods(app)
  await addHeaders(app, api)
  await describeApi(app, api, features)
  for (const feature of features) await app.register(async (scope) => addRoutes(scope, api, feature))
  addRefusals()
  // With another token in the configuration the operator's sessions are over; kept, they would be live when it is back.
  await api.operators.endOfOtherCredentials(null)
  await app.ready()

  const stopped = new AbortController()
  let jobs: Promise<unknown> = Promise.resolve()
  const monitoring = createServer((request, response) => {
    if (!monitored.test(request.url!)) return void response.writeHead(404).end()
    // A mesh or a probe may add it; everything that reaches this port is the operator's.
    delete request.headers['x-forwarded-for']
    app.routing(request, response)
  })
  return {
    async listen({ host, port }) {
      await app.listen({ host, port })
      jobs = Promise.all(features.map((feature) => runJobs(api, feature, stopped.signal)))
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
      stopped.abort()
      monitoring.close()
      monitoring.closeIdleConnections()
      const cut = setTimeout(cutUnfinished, LAST_BYTES_MS)
      await app.close()
      clearTimeout(cut)
      await jobs
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
      // A signed-in browser may be refused anywhere: it has to ask from a page of this service.
      const response = { 403: { $ref: 'Error#' }, ...(route.schema?.response as object) }
      route.schema = { security: [{ apiKey: [] }], ...route.schema, response }
    })
    for (const add of storeRoutes) await add(own, api)
  })
}

/** A job that fails takes nobody with it. */
async function runJobs(api: Api, { name, jobs = [] }: Feature, stopped: AbortSignal): Promise<void> {
  const run = async (job: NonNullable<Feature['jobs']>[number]) => {
    try {
      await job(api, stopped)
    } catch (err) {
      api.log.error({ err, feature: name }, 'a job of the control plane ended with an error')
    }
  }
  await Promise.all(jobs.map(run))
}

/** Bytes that are not HTTP get an answer in the envelope too, while the socket can still carry one. */
function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const requestId = requestIdOf(undefined)
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
