import cors from '@fastify/cors'
import helmet from '@fastify/helmet'
import type { FastifyInstance } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether pages of every origin may read the response. They may if it is public and depends on no cookie or key. */
    anyOrigin?: boolean
    /** The only origin whose pages may read the responses of a path. Null for none. */
    originOf?: (url: string) => Promise<string | null>
  }
}

/** With the headers of payments, because x402 clients in a browser read the offer and the receipt there. */
const exposedHeaders = [
  ...['PAYMENT-REQUIRED', 'PAYMENT-RESPONSE', 'X-Purchase-Id', 'X-Review-Token'],
  'X-Request-Id',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'Retry-After',
]

/** Sets the headers of every response. A route can override them. Call this function before the routes are added. */
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
    // The operator decides this, because other services of the domain may run without TLS.
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
  // The decision depends on the path and not on the route, because a preflight or a 404 has another route or none.
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
  origin: '*',
  methods: ['GET', 'HEAD'],
  exposedHeaders,
  maxAge: 600,
  strictPreflight: false,
}

/** CORS for a shop that pays from its own page. It allows the payment headers. */
const oneOrigin = {
  methods: ['GET', 'HEAD', 'POST'],
  exposedHeaders,
  maxAge: 600,
  strictPreflight: false,
}

const pathForm = (url: string): RegExp =>
  new RegExp(`^${url.replaceAll('.', '\\.').replace(/:\w+/g, '[^/]+')}(?:\\?|$)`)

/** Maximum nesting of JSON. No valid request is deeper, and recursive readers could exhaust the stack. */
const MAX_DEPTH = 64
const jsonTypes = /^application\/(?:[\w.-]+\+)?json(?:;|$)/i

/**
 * Parses JSON bodies and no other kind. An empty body counts as no body with any Content-Type, because clients send
 * `application/json` with GET, DELETE and a POST without a body. The parser refuses compressed bodies. It returns VALIDATION_ERROR
 * for malformed JSON, bytes that are not UTF-8 (RFC 8259, section 8.1), more than 64 levels, `__proto__` keys, and text that no
 * database stores (NUL, lone surrogates).
 */
export function readJsonBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addHook('preParsing', async ({ headers }, reply) => {
    const coding = headers['content-encoding']
    const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
    if (!coding || coding.toLowerCase() === 'identity' || !hasBody) return
    // RFC 9110, section 15.5.16, asks for this header.
    reply.header('accept-encoding', 'identity')
    throw new TollgateError(
      'UNSUPPORTED_MEDIA_TYPE',
      'The body is compressed. Send it without Content-Encoding.',
    )
  })
  app.addContentTypeParser(jsonTypes, { parseAs: 'buffer' }, (request, body, done) => {
    const text = textOf(body as Buffer)
    // Decoding a body in another encoding would lose characters.
    if (text === undefined) return done(new TollgateError('VALIDATION_ERROR', 'The body is not UTF-8.'))
    if (text.trim() === '') return done(null, undefined)
    parse(request, text, (error, value) => {
      if (error) return done(new TollgateError('VALIDATION_ERROR', 'The body is not valid JSON.'))
      const problem = problemIn(value)
      if (problem !== undefined) return done(new TollgateError('VALIDATION_ERROR', problem))
      done(null, value)
    })
  })
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => {
    if (body.length === 0) return done(null, undefined)
    done(
      new TollgateError(
        'UNSUPPORTED_MEDIA_TYPE',
        'Expected a JSON body. Send Content-Type: application/json.',
      ),
    )
  })
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** The text without the byte order mark that some clients send. Undefined if it is not UTF-8. */
function textOf(body: Buffer): string | undefined {
  try {
    return utf8.decode(body)
  } catch {
    return undefined
  }
}

/** Finds the first problem in a value. The function does not recurse, so that a deep value uses no stack. */
function problemIn(root: unknown): string | undefined {
  const stack: [value: unknown, depth: number][] = [[root, 0]]
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    const [value, depth] = entry
    if (typeof value === 'string' && !isStorable(value)) return unstorable
    if (typeof value !== 'object' || value === null) continue
    if (depth >= MAX_DEPTH) return `The body is nested more than ${MAX_DEPTH} levels deep.`
    if (Array.isArray(value)) {
      for (const child of value) stack.push([child, depth + 1])
      continue
    }
    // Object.entries would take four times as long for an object with a hundred thousand keys.
    for (const key in value) {
      if (!isStorable(key)) return unstorable
      stack.push([(value as Record<string, unknown>)[key], depth + 1])
    }
  }
}

const unstorable = 'The body contains a NUL character or half of a surrogate pair. Send well-formed Unicode.'
const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0')
