/** A route that a remote agent may use. */
export interface AllowedRoute {
  readonly method: 'GET' | 'POST'
  /** A segment that begins with `:` stands for any one segment. */
  readonly path: string
}

/**
 * The agent's routes of the vault, and no other: what only the owner may do (unlocking, deciding, agents, policies,
 * pairings) is not reachable from outside this machine, whatever credential comes with it. Both ends check: the proxy to
 * answer at once, the vault because a proxy may be anyone's program.
 */
export const allowedRoutes: readonly AllowedRoute[] = [
  { method: 'GET', path: '/v1/capabilities' },
  { method: 'GET', path: '/address/:chain' },
  { method: 'POST', path: '/v1/vault/read' },
  { method: 'POST', path: '/v1/vault/write' },
  { method: 'POST', path: '/v1/vault/delete' },
  { method: 'POST', path: '/v1/vault/sign' },
  { method: 'POST', path: '/v1/vault/sign-message' },
  { method: 'POST', path: '/v1/vault/sign-typed-data' },
  { method: 'POST', path: '/v1/vault/sign_message' },
  { method: 'POST', path: '/v1/vault/sign_typed_data' },
  { method: 'POST', path: '/v1/vault/sign-payment' },
  { method: 'POST', path: '/v1/vault/preview' },
  { method: 'POST', path: '/v1/vault/call' },
  { method: 'GET', path: '/v1/vault/scopes' },
  { method: 'GET', path: '/v1/vault/assets' },
  { method: 'GET', path: '/v1/vault/budget' },
  { method: 'POST', path: '/v1/vault/budget/check' },
  { method: 'GET', path: '/v1/vault/activity' },
  { method: 'GET', path: '/v1/vault/approvals' },
  { method: 'GET', path: '/v1/vault/approvals/:id' },
  { method: 'POST', path: '/v1/vault/approvals/:id/cancel' },
]

export type RouteVerdict = 'allowed' | 'unknown' | 'other-method'

/** The same letters a URL's path may have without any escape, so that no end reads it differently from another. */
const plainSegment = /^[A-Za-z0-9._~:-]{1,128}$/
const plainQuery = /^[A-Za-z0-9._~:%+=&,*@/-]{0,2048}$/

/** Judges a request target in origin form (RFC 9112, section 3.2.1): `/address/solana`, `/v1/vault/activity?limit=5`. */
export function judgeRoute(method: string, target: string): RouteVerdict {
  const [path = '', ...queries] = target.split('?')
  if (!path.startsWith('/') || queries.length > 1 || !plainQuery.test(queries[0] ?? '')) return 'unknown'
  const segments = path.slice(1).split('/')
  if (!segments.every((segment) => plainSegment.test(segment) && segment !== '.' && segment !== '..'))
    return 'unknown'
  const matching = allowedRoutes.filter((route) => matches(route.path.slice(1).split('/'), segments))
  if (matching.length === 0) return 'unknown'
  return matching.some((route) => route.method === method) ? 'allowed' : 'other-method'
}

/** The methods of a path, for `Allow`. */
export const methodsOf = (target: string): readonly string[] =>
  ['GET', 'POST'].filter((method) => judgeRoute(method, target) === 'allowed')

const matches = (pattern: readonly string[], segments: readonly string[]): boolean =>
  pattern.length === segments.length &&
  pattern.every((part, i) => part.startsWith(':') || part === segments[i])
