import type { Log } from '../../core/ports/log.ts'
import { isVaultError, VaultError } from '../errors/error.ts'
import { errorBody } from '../errors/errorBody.ts'
import { assertKnown, assertOwner } from '../host/caller.ts'
import type { VaultApi } from '../host/vaultApi.ts'
import { preferWait } from './preferWait.ts'
import { readJsonObject } from './readJson.ts'
import type { VaultReply, VaultRequest } from './request.ts'
import { type Route, routes } from './routes.ts'

/** Turns requests of any transport into calls of the {@link VaultApi}, and whatever comes of them into answers. */
export type Dispatch = (request: VaultRequest) => Promise<VaultReply>

const segmentPattern = /^[A-Za-z0-9._~@ -]{1,128}$/

export function createDispatch(api: VaultApi, log: Log): Dispatch {
  const exact = new Map<string, Map<string, Route>>()
  const withNames: { route: Route; segments: readonly string[] }[] = []
  for (const route of routes) {
    if (route.path.includes(':')) withNames.push({ route, segments: route.path.split('/') })
    else exact.set(route.path, (exact.get(route.path) ?? new Map()).set(route.method, route))
  }

  /** The routes of a path by method, and what stands at its names. */
  function find(path: string): { byMethod: ReadonlyMap<string, Route>; params: readonly string[] } {
    const known = exact.get(path)
    if (known !== undefined) return { byMethod: known, params: [] }
    const segments = path.split('/')
    const byMethod = new Map<string, Route>()
    let params: readonly string[] = []
    for (const { route, segments: wanted } of withNames) {
      const found = match(wanted, segments)
      if (found === undefined) continue
      byMethod.set(route.method, route)
      params = found
    }
    return { byMethod, params }
  }

  return async (request) => {
    const { requestId } = request
    try {
      const mark = request.target.indexOf('?')
      const path = mark === -1 ? request.target : request.target.slice(0, mark)
      const { byMethod, params } = find(path)
      const route = byMethod.get(request.method)
      if (byMethod.size === 0) throw new VaultError('NOT_FOUND')
      if (route === undefined)
        return reply(405, errorBody(new VaultError('METHOD_NOT_ALLOWED')), requestId, {
          allow: [...byMethod.keys()].join(', '),
        })
      if (route.who === 'owner') assertOwner(request.caller)
      else if (route.who !== 'anyone') assertKnown(request.caller)
      const waitMs = preferWait(request.headers['prefer'])
      const idempotencyKey = request.headers['idempotency-key']
      const { status = 200, body } = await route.run(api, {
        params,
        query: new URLSearchParams(mark === -1 ? '' : request.target.slice(mark + 1)),
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

function match(wanted: readonly string[], segments: readonly string[]): readonly string[] | undefined {
  if (wanted.length !== segments.length) return undefined
  const params: string[] = []
  for (const [i, part] of wanted.entries()) {
    if (!part.startsWith(':')) {
      if (part !== segments[i]) return undefined
      continue
    }
    const value = decode(segments[i]!)
    if (value === undefined) return undefined
    params.push(value)
  }
  return params
}

/** A name or id in the path; names may have spaces, which come escaped. */
function decode(segment: string): string | undefined {
  try {
    const text = segment.includes('%') ? decodeURIComponent(segment) : segment
    return segmentPattern.test(text) ? text : undefined
  } catch {
    return undefined
  }
}
