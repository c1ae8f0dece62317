import createRouter from 'find-my-way'
import type { Log } from '../../core/ports/log.ts'
import { errorBody, isVaultError, VaultError } from '../errors/error.ts'
import { assertKnown, assertOwner, type Caller } from '../host/caller.ts'
import type { VaultApi } from '../host/createVaultApi.ts'
import { readJsonObject } from '../loopback/callers.ts'
import { isOpenPath, type Route, routes } from '../operations/table.ts'

/** A request in the common form of all transports, which are HTTP on loopback, the owner's socket, and the relay's channel. */
export interface VaultRequest {
  readonly method: string
  /** Path and query, in origin form. */
  readonly target: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** The body as text. Empty where there is none. */
  readonly body: string
  readonly caller: Caller
  readonly requestId: string
  readonly signal?: AbortSignal
}

export interface VaultReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Turns requests of any transport into calls of the {@link VaultApi}, and their results or errors into responses. */
export type Dispatch = (request: VaultRequest) => Promise<VaultReply>

/** Form of a name or id in the path. Names may contain spaces, which are percent-encoded. */
const namePattern = /^[A-Za-z0-9._~@ -]{1,128}$/
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

export function createDispatch(api: VaultApi, log: Log): Dispatch {
  const router = createRouter({ maxParamLength: 384 })
  for (const route of routes) {
    router.on(route.method, route.path, nothing, route)
    // Node omits the body of a response to HEAD.
    if (isOpenPath(route.path)) router.on('HEAD', route.path, nothing, route)
  }

  /** The route of a path, and the value of its parameter. */
  function find(method: string, path: string): { route: Route; name: string } | undefined {
    const found = isMethod(method) ? router.find(method, path) : null
    const [name] = Object.values(found?.params ?? {})
    if (found === null || (name !== undefined && !namePattern.test(name))) return undefined
    if (path.includes('%') && !isSpelled(path, (found.store as Route).path)) return undefined
    return { route: found.store as Route, name: name ?? '' }
  }

  return async (request) => {
    const { requestId } = request
    try {
      const mark = request.target.indexOf('?')
      const path = mark === -1 ? request.target : request.target.slice(0, mark)
      const found = path.includes('#') ? undefined : find(request.method, path)
      if (found === undefined) {
        const allowed = methods.filter((method) => find(method, path) !== undefined)
        if (allowed.length === 0) throw new VaultError('NOT_FOUND')
        return reply(405, errorBody(new VaultError('METHOD_NOT_ALLOWED')), requestId, {
          allow: allowed.join(', '),
        })
      }
      const { route, name } = found
      const { who, keepsKey, hasInput, run } = route.operation
      if (who === 'owner') assertOwner(request.caller)
      else if (who === 'agent') assertKnown(request.caller)
      const waitMs = preferWait(request.headers['prefer'])
      const idempotencyKey = request.headers['idempotency-key']
      if (idempotencyKey !== undefined && route.method !== 'GET' && keepsKey !== true)
        throw new VaultError(
          'VALIDATION_ERROR',
          `Expected no Idempotency-Key, because ${route.method} ${route.path} does not store keys and would perform a repeat again. Omit the key.`,
        )
      const input = !hasInput
        ? {}
        : route.method === 'GET'
          ? queryOf(mark === -1 ? '' : request.target.slice(mark + 1))
          : readJsonObject(request.headers['content-type'], request.body)
      const { status, body } = await run(api, {
        input,
        name,
        context: {
          caller: request.caller,
          requestId,
          ...(waitMs !== undefined && { waitMs }),
          ...(idempotencyKey !== undefined && { idempotencyKey }),
          ...(request.signal && { signal: request.signal }),
        },
      })
      return reply(status, body, requestId)
    } catch (error) {
      return errorReply(error, requestId, log)
    }
  }
}

/** The response to any thrown value. An unexpected error is logged, and the response contains no detail of it. */
export function errorReply(error: unknown, requestId: string, log: Log): VaultReply {
  if (!isVaultError(error)) log.error({ err: error, requestId }, 'unexpected error')
  const retryAfter = isVaultError(error) ? error.retryAfterSeconds : undefined
  const status = isVaultError(error) ? error.status : 500
  return reply(
    status,
    errorBody(error),
    requestId,
    retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) },
  )
}

const reply = (
  status: number,
  body: object,
  requestId: string,
  headers: Readonly<Record<string, string>> = {},
): VaultReply => ({
  status,
  headers: {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-request-id': requestId,
    ...headers,
  },
  body: JSON.stringify(body, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value)),
})

/**
 * Whether a path has the one accepted spelling of its route. Only names may be percent-encoded, because paths are compared as
 * text elsewhere.
 */
function isSpelled(path: string, route: string): boolean {
  const segments = path.split('/')
  return route.split('/').every((part, i) => part.startsWith(':') || part === segments[i])
}

/** A handler that is never called. The router only matches paths, and its `store` is the route. */
const nothing = (): void => undefined

const isMethod = (method: string): method is (typeof methods)[number] =>
  (methods as readonly string[]).includes(method)

/** The query string as an object for the schemas. @throws `VALIDATION_ERROR` for a repeated field */
function queryOf(text: string): Readonly<Record<string, unknown>> {
  const query = new Map<string, unknown>()
  for (const [name, value] of new URLSearchParams(text)) {
    if (query.has(name))
      throw new VaultError('VALIDATION_ERROR', `${name.slice(0, 64)}: Expected this field once.`)
    query.set(name, name === 'limit' && /^\d{1,15}$/.test(value) ? Number(value) : value)
  }
  return Object.fromEntries(query)
}

/** The milliseconds of `Prefer: wait=N` (RFC 7240, section 4.3, N in seconds). Undefined if it is absent or not a number. */
function preferWait(prefer: string | undefined): number | undefined {
  for (const part of prefer?.split(/[,;]/) ?? []) {
    const match = /^\s*wait\s*=\s*"?(\d{1,6})"?\s*$/i.exec(part)
    if (match !== null) return Number(match[1]) * 1_000
  }
  return undefined
}
