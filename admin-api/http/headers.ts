import cors from '@fastify/cors'
import helmet from '@fastify/helmet'
import type { FastifyInstance } from 'fastify'
import type { Api } from '../deps.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Pages of every origin may read the answer: it is public, and depends on no cookie and no key. */
    anyOrigin?: boolean
    /** The one origin whose pages may read the answers of a path; null for none. */
    originOf?: (url: string) => Promise<string | null>
  }
}

const exposedHeaders = [
  'X-Request-Id',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'Retry-After',
]

/** What every answer carries; a route may say otherwise. Call it before the routes are added. */
export async function addHeaders(app: FastifyInstance, api: Api): Promise<void> {
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
    // Other services of the domain may have no TLS: only the operator knows.
    strictTransportSecurity: api.publicUrl.startsWith('https:') && {
      includeSubDomains: api.hstsIncludeSubDomains,
    },
    referrerPolicy: { policy: 'no-referrer' },
  })
  const forAnyOrigin: RegExp[] = []
  const forOneOrigin: { readonly form: RegExp; readonly originOf: OriginOf }[] = []
  app.addHook('onRoute', ({ url, config }) => {
    if (config?.anyOrigin) forAnyOrigin.push(pathForm(url))
    if (config?.originOf) forOneOrigin.push({ form: pathForm(url), originOf: config.originOf })
  })
  // By path and not by route: a preflight and a 404 have another route, or none.
  await app.register(cors, {
    delegator: (request, done) => {
      const { url = '', headers } = request
      if (forAnyOrigin.some((form) => form.test(url))) return done(null, anyOrigin)
      const one = forOneOrigin.find(({ form }) => form.test(url))
      if (one === undefined || headers.origin === undefined) return done(null, { origin: false })
      one.originOf(url).then(
        (allowed) =>
          done(null, allowed === headers.origin ? { ...oneOrigin, origin: allowed } : { origin: false }),
        (error: Error) => done(error),
      )
    },
  })
}

type OriginOf = (url: string) => Promise<string | null>

const anyOrigin = {
  ...{ origin: '*', methods: ['GET', 'HEAD'], exposedHeaders, maxAge: 600, strictPreflight: false },
}

/** The headers of a payment are for whoever pays from its own page. */
const oneOrigin = {
  methods: ['GET', 'HEAD', 'POST'],
  exposedHeaders: [
    ...exposedHeaders,
    ...['PAYMENT-REQUIRED', 'PAYMENT-RESPONSE', 'X-Purchase-Id', 'X-Review-Token'],
  ],
  maxAge: 600,
  strictPreflight: false,
}

const pathForm = (url: string): RegExp =>
  new RegExp(`^${url.replaceAll('.', '\\.').replace(/:\w+/g, '[^/]+')}(?:\\?|$)`)
