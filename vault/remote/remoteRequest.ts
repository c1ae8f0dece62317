import type { Message } from '../channel/message.ts'
import { vaultCodes } from '../errors/codes.ts'
import { VaultError } from '../errors/error.ts'
/**
 * A route for remote agents, from the vault's operations table. The owner's operations (unlocking, deciding, agents, policies,
 * pairings) cannot be reached from other machines with any credential. The proxy checks routes to respond at once, and the
 * vault checks them again because it does not trust the proxy.
 */
export interface RemoteRoute {
  readonly method: 'GET' | 'POST'
  /** A segment that starts with `:` matches any one segment. */
  readonly path: string
}

type RouteVerdict = 'allowed' | 'unknown' | 'other-method'

/** A path segment with only characters that need no escape in a URL, so that both ends parse it the same way. */
const plainSegment = /^[A-Za-z0-9._~:-]{1,128}$/
const plainQuery = /^[A-Za-z0-9._~:%+=&,*@/-]{0,2048}$/

/** Judges a request target in origin form (RFC 9112, section 3.2.1): `/address/solana`, `/v1/vault/activity?limit=5`. */
export function judgeRoute(routes: readonly RemoteRoute[], method: string, target: string): RouteVerdict {
  const [path = '', ...queries] = target.split('?')
  if (!path.startsWith('/') || queries.length > 1 || !plainQuery.test(queries[0] ?? '')) return 'unknown'
  const segments = path.slice(1).split('/')
  if (!segments.every((segment) => plainSegment.test(segment) && segment !== '.' && segment !== '..'))
    return 'unknown'
  const matching = routes.filter((route) => matches(route.path.slice(1).split('/'), segments))
  if (matching.length === 0) return 'unknown'
  return matching.some((route) => route.method === method) ? 'allowed' : 'other-method'
}

/** The methods of a path, for `Allow`. */
export const methodsOf = (routes: readonly RemoteRoute[], target: string): readonly string[] =>
  ['GET', 'POST'].filter((method) => judgeRoute(routes, method, target) === 'allowed')

const matches = (pattern: readonly string[], segments: readonly string[]): boolean =>
  pattern.length === segments.length &&
  pattern.every((part, i) => part.startsWith(':') || part === segments[i])

/** The longest body of a call, in bytes. */
export const MAX_BODY_BYTES = 256 * 1024

/**
 * A call of a paired agent that was opened and checked. The channel authenticates the caller, and there is no other credential.
 */
export interface RemoteRequest {
  readonly agentId: string
  readonly pairingId: string
  readonly serviceId: string
  readonly method: 'GET' | 'POST'
  /** Path and query, one of the allowed routes: `/v1/vault/activity?limit=5`. */
  readonly path: string
  /** Only `content-type`, `accept`, `prefer`, `idempotency-key` and `x-request-id`, with names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Aborted when the pairing is revoked or the vault stops, which ends a wait for the owner. */
  readonly signal: AbortSignal
}

/** The host's response. */
export interface RemoteResponse {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Uint8Array | string
}

/**
 * Headers that pass from the agent to the vault. They contain no credential, because the vault identifies the proxy by its key.
 */
const requestHeaders = ['content-type', 'accept', 'prefer', 'idempotency-key', 'x-request-id'] as const

/** Headers that pass from the vault to the agent. */
export const responseHeaders = [
  'content-type',
  'retry-after',
  'preference-applied',
  'x-request-id',
  'allow',
] as const

const plainValue = /^[\x20-\x7e]{0,1024}$/

/** Picks the named headers with values that are valid in a header. */
export function pickHeaders(
  from: Readonly<Record<string, unknown>>,
  names: readonly string[],
): Record<string, string> {
  const picked: Record<string, string> = {}
  for (const name of names) {
    const value = from[name]
    if (typeof value === 'string' && plainValue.test(value)) picked[name] = value
  }
  return picked
}

/**
 * Picks the headers that pass from the agent to the vault.
 *
 * @throws VaultError for an Idempotency-Key that cannot pass, because without its key a repeated call would be performed again
 */
export function callHeaders(from: Readonly<Record<string, unknown>>): Record<string, string> {
  const picked = pickHeaders(from, requestHeaders)
  if (from['idempotency-key'] === undefined || picked['idempotency-key'] !== undefined) return picked
  throw new VaultError('VALIDATION_ERROR', 'Idempotency-Key: Expected 1 to 128 visible ASCII characters.')
}

/** Parses a call. @throws VaultError when a remote agent may not make it */
export function readRemoteCall(
  { head, body }: Message,
  routes: readonly RemoteRoute[],
): Pick<RemoteRequest, 'method' | 'path' | 'headers' | 'body'> {
  const { method, path, headers } = head
  if (typeof method !== 'string' || typeof path !== 'string') throw new VaultError('VALIDATION_ERROR')
  const fields = typeof headers === 'object' && headers !== null ? headers : {}
  assertAllowed(routes, method, path)
  if (body.byteLength > MAX_BODY_BYTES) throw new VaultError('PAYLOAD_TOO_LARGE')
  return {
    method: method as RemoteRequest['method'],
    path,
    headers: callHeaders(fields as Record<string, unknown>),
    body: Buffer.from(body),
  }
}

/** @throws VaultError for a route that is not for remote agents */
export function assertAllowed(routes: readonly RemoteRoute[], method: string, path: string): void {
  const verdict = judgeRoute(routes, method, path)
  if (verdict === 'allowed') return
  if (verdict === 'other-method')
    throw new VaultError('METHOD_NOT_ALLOWED', `Use ${methodsOf(routes, path).join(' or ')} here.`)
  if (/^\/v1\/vault\/(unlock|lock|approvals|agents|policies|pairings|events)/.test(path))
    throw new VaultError('OWNER_REQUIRED', "Only the owner may do this, on the vault's own machine.")
  throw new VaultError('NOT_FOUND', vaultCodes.NOT_FOUND.meaning)
}
