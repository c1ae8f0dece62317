import createRouter from 'find-my-way'
import type { Log } from '../../core/ports/log.ts'
import { isVaultError, VaultError } from '../errors/error.ts'
import { errorBody } from '../errors/errorBody.ts'
import { assertKnown, assertOwner } from '../host/caller.ts'
import type { VaultApi } from '../host/vaultApi.ts'
import { readJsonObject } from './readBody.ts'
import type { VaultReply, VaultRequest } from './request.ts'
import { isOpenPath, type Route, routes } from './routes.ts'

/** Turns requests of any transport into calls of the {@link VaultApi}, and whatever comes of them into answers. */
export type Dispatch = (request: VaultRequest) => Promise<VaultReply>

/** A name or id in the path; names may have spaces, which come escaped. */
const namePattern = /^[A-Za-z0-9._~@ -]{1,128}$/
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

export function createDispatch(api: VaultApi, log: Log): Dispatch {
  const router = createRouter({ maxParamLength: 384 })
  for (const route of routes) {
    router.on(route.method, route.path, nothing, route)
    // Node leaves the body of its answer out.
    if (isOpenPath(route.path)) router.on('HEAD', route.path, nothing, route)
  }

  /** The route of a path, and what stands at its name. */
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
      if (route.who === 'owner') assertOwner(request.caller)
      else if (route.who !== 'anyone') assertKnown(request.caller)
      const waitMs = preferWait(request.headers['prefer'])
      const idempotencyKey = request.headers['idempotency-key']
      if (idempotencyKey !== undefined && route.method !== 'GET' && route.keepsKey !== true)
        throw new VaultError(
          'VALIDATION_ERROR',
          `Expected no Idempotency-Key: ${route.method} ${route.path} does not keep it, so a repeat would be done again. Leave it out.`,
        )
      const { status, body } = await route.run(api, {
        name,
        query: () => queryOf(mark === -1 ? '' : request.target.slice(mark + 1)),
        body: () => readJsonObject(request.headers['content-type'], request.body),
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

/** The answer to whatever was thrown; what was not thrown on purpose goes to the log and says nothing. */
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

/** Names may come escaped; the rest of a path has one spelling, as everywhere where it is compared. */
function isSpelled(path: string, route: string): boolean {
  const segments = path.split('/')
  return route.split('/').every((part, i) => part.startsWith(':') || part === segments[i])
}

/** The router only finds; what a route does is in its store. */
const nothing = (): void => undefined

const isMethod = (method: string): method is (typeof methods)[number] =>
  (methods as readonly string[]).includes(method)

/** The query as an object that schemas can check. @throws `VALIDATION_ERROR` for a field that comes twice */
function queryOf(text: string): Readonly<Record<string, unknown>> {
  const query = new Map<string, unknown>()
  for (const [name, value] of new URLSearchParams(text)) {
    if (query.has(name)) throw new VaultError('VALIDATION_ERROR', `${name.slice(0, 64)}: Expected it once.`)
    query.set(name, name === 'limit' && /^\d{1,15}$/.test(value) ? Number(value) : value)
  }
  return Object.fromEntries(query)
}

/**
 * The milliseconds of `Prefer: wait=N` (RFC 7240, section 4.3, N in seconds); undefined when it is not there or no number.
 */
function preferWait(prefer: string | undefined): number | undefined {
  for (const part of prefer?.split(/[,;]/) ?? []) {
    const match = /^\s*wait\s*=\s*"?(\d{1,6})"?\s*$/i.exec(part)
    if (match !== null) return Number(match[1]) * 1_000
  }
  return undefined
}
