import type { FastifyInstance, HTTPMethods } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Methods that the route lacks are answered with 404, not 405. */
    answers404?: boolean
  }
}

const answered: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

/**
 * Answers 405 with `Allow` where an address exists, but not for the method (RFC 9110, section 15.5.6); the framework
 * would say 404. Call it before the routes are added, and the function that it returns after them.
 *
 * A route whose config says `answers404: true` is left out: a page that catches every single-segment path would else
 * turn each unknown address into a 405.
 */
export function refuseOtherMethods(app: FastifyInstance): () => void {
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
        // Before the body is read: nobody needs to send one to hear this.
        onRequest: async (request, reply) => {
          reply.header('allow', allow)
          throw new TollgateError(
            'METHOD_NOT_ALLOWED',
            `${request.method} is not allowed here; allowed: ${allow}.`,
          )
        },
        handler: async () => undefined,
      })
    }
  }
}
