import type { Reply } from '../core/http/replies.ts'
import type { Transport } from '../core/plugin/transport.ts'

/**
 * Response headers for callers in a browser. Every page may call every link, because a call is authorized by its payment and never
 * by a cookie. x402 clients read the offer and the receipt in headers, so the gateway exposes these headers.
 */
export const corsHeaders: readonly string[] = [
  'Access-Control-Allow-Origin',
  '*',
  'Access-Control-Expose-Headers',
  'PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, X-Purchase-Id, X-Review-Token, X-Request-Id, Retry-After, X-RateLimit-Remaining, X-RateLimit-Reset',
]

/** Some clients send `Access-Control-Expose-Headers` as a request header by mistake, so a preflight must allow it. */
const allowed =
  'PAYMENT-SIGNATURE, X-PAYMENT, SIGN-IN-WITH-X, Access-Control-Expose-Headers, X402-Version, Content-Type, Accept, Authorization'

type Asked = Pick<Transport, 'method' | 'header'>

/**
 * Whether a request is a preflight by the Fetch standard ("CORS-preflight request"), which is OPTIONS with
 * Access-Control-Request-Method.
 */
export const isPreflight = (asked: Asked): boolean =>
  asked.method === 'OPTIONS' && asked.header('access-control-request-method') !== undefined

/**
 * The response to a preflight, and to any OPTIONS request that the seller does not handle (RFC 9110, section 9.3.7).
 *
 * @param methods methods that the link supports, or null for all methods
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

/** The value of `Allow` for a link with a list of methods. GET includes HEAD, and the gateway handles OPTIONS. */
export function allowOf(methods: ReadonlySet<string>): string {
  const all = new Set(methods)
  if (all.has('GET')) all.add('HEAD')
  return [...all.add('OPTIONS')].join(', ')
}
