import { vaultCodes } from '../errors/codes.ts'
import { VaultError } from '../errors/error.ts'
import { judgeRoute, methodsOf } from './allowedRoutes.ts'
import type { Message } from './channel/message.ts'

/** The longest body of a call, in bytes. */
export const MAX_BODY_BYTES = 256 * 1024

/** A call of a paired agent, opened and checked. Who calls is proved by the channel; there is no other credential. */
export interface RemoteRequest {
  readonly agentId: string
  readonly pairingId: string
  readonly serviceId: string
  readonly method: 'GET' | 'POST'
  /** Path and query, one of the allowed routes: `/v1/vault/activity?limit=5`. */
  readonly path: string
  /** Lower-case names; `content-type`, `accept`, `prefer`, `idempotency-key`, `x-request-id` and no others. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Aborted when the pairing is revoked or the vault goes away: what only waits for its owner ends. */
  readonly signal: AbortSignal
}

/** What the host answers. */
export interface RemoteAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Uint8Array | string
}

/** What goes along from the agent to the vault. No credential: the vault knows the proxy by its key. */
const requestHeaders = ['content-type', 'accept', 'prefer', 'idempotency-key', 'x-request-id'] as const

/** What goes along back. */
export const answerHeaders = [
  'content-type',
  'retry-after',
  'preference-applied',
  'x-request-id',
  'allow',
] as const

const plainValue = /^[\x20-\x7e]{0,1024}$/

/** Takes the named headers, and only values that can stand in a header. */
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
 * Takes what goes along from the agent to the vault.
 *
 * @throws VaultError for an Idempotency-Key that can't go along: without it, a repeat would be done again
 */
export function callHeaders(from: Readonly<Record<string, unknown>>): Record<string, string> {
  const picked = pickHeaders(from, requestHeaders)
  if (from['idempotency-key'] === undefined || picked['idempotency-key'] !== undefined) return picked
  throw new VaultError(
    'VALIDATION_ERROR',
    'Expected Idempotency-Key to be 1 to 128 visible characters of ASCII.',
  )
}

/** Reads a call. @throws VaultError when it is none that a remote agent may make. */
export function readRemoteCall({
  head,
  body,
}: Message): Pick<RemoteRequest, 'method' | 'path' | 'headers' | 'body'> {
  const { method, path, headers } = head
  if (typeof method !== 'string' || typeof path !== 'string') throw new VaultError('VALIDATION_ERROR')
  const fields = typeof headers === 'object' && headers !== null ? headers : {}
  assertAllowed(method, path)
  if (body.byteLength > MAX_BODY_BYTES) throw new VaultError('PAYLOAD_TOO_LARGE')
  return {
    method: method as RemoteRequest['method'],
    path,
    headers: callHeaders(fields as Record<string, unknown>),
    body: Buffer.from(body),
  }
}

/** @throws VaultError for a route that is not for remote agents. */
export function assertAllowed(method: string, path: string): void {
  const verdict = judgeRoute(method, path)
  if (verdict === 'allowed') return
  if (verdict === 'other-method')
    throw new VaultError('METHOD_NOT_ALLOWED', `Use ${methodsOf(path).join(' or ')} here.`)
  if (/^\/v1\/vault\/(unlock|lock|approvals|agents|policies|pairings|events)/.test(path))
    throw new VaultError('OWNER_REQUIRED', "Only the owner may do this, on the vault's own machine.")
  throw new VaultError('NOT_FOUND', vaultCodes.NOT_FOUND.meaning)
}
