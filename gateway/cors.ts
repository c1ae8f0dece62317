import type { Door } from '../core/plugin/door.ts'
import type { Reply } from '../core/plugin/reply.ts'

/**
 * Headers for callers in a browser. Every link may be called from every page: a call carries its payment, never a
 * cookie. The x402 clients need the offer and the receipt exposed.
 */
export const corsHeaders: readonly string[] = [
  'Access-Control-Allow-Origin',
  '*',
  'Access-Control-Expose-Headers',
  'PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, X-Purchase-Id, X-Review-Token, X-Request-Id, Retry-After, X-RateLimit-Remaining, X-RateLimit-Reset',
]

/** Clients send `Access-Control-Expose-Headers` as a request header by mistake; a preflight must let it pass. */
const allowed =
  'PAYMENT-SIGNATURE, X-PAYMENT, Access-Control-Expose-Headers, X402-Version, Content-Type, Accept, Authorization'

type Asked = Pick<Door, 'method' | 'header'>

/** Fetch standard, "CORS-preflight request": OPTIONS with Access-Control-Request-Method. */
export const isPreflight = (asked: Asked): boolean =>
  asked.method === 'OPTIONS' && asked.header('access-control-request-method') !== undefined

/**
 * The answer to a preflight, and to any OPTIONS that is not the seller's to answer (RFC 9110, section 9.3.7).
 *
 * @param methods what the link takes; null for all
 */
export function preflightReply(preflight: Asked, methods: ReadonlySet<string> | null): Reply {
  const asked = preflight.header('access-control-request-headers')
  const names = asked !== undefined && /^[\w\-, ]{1,1024}$/.test(asked) ? `${allowed}, ${asked}` : allowed
  const takes = methods === null ? 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS' : allowOf(methods)
  return {
    status: 204,
    headers: [
      ...corsHeaders,
      'Allow',
      takes,
      'Access-Control-Allow-Methods',
      takes,
      'Access-Control-Allow-Headers',
      names,
      'Access-Control-Max-Age',
      '600',
    ],
    body: null,
  }
}

/** The value of `Allow` for a link that takes some methods only: whoever takes GET takes HEAD, and OPTIONS is ours. */
export function allowOf(methods: ReadonlySet<string>): string {
  const all = new Set(methods)
  if (all.has('GET')) all.add('HEAD')
  return [...all.add('OPTIONS')].join(', ')
}
