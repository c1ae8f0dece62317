import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { ApiKey } from '../../core/domain/store.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { callerOf, HOUR_MS, refuse } from '../http/callers.ts'
import { bodyField, fromResponses, type Infer } from '../http/fields.ts'
import { type IdParams, idOrNotFound, idParams } from '../http/ownership.ts'
import { exactly, field, isoTime, isoTimeOrNull, listOf, ok, respond, success } from '../http/responses.ts'
import { UndeliveredResponses } from '../http/undeliveredResponses.ts'
import { createApiKey, prefixOf } from './apiKey.ts'

/** Maximum number of revoked keys in the list, most recently revoked first. */
const LISTED_REVOKED_KEYS = 20

const createBody = {
  type: ['object', 'null'],
  additionalProperties: false,
  properties: {
    name: { ...bodyField.keyName, type: ['string', 'null'] },
    ...fromResponses('id', 'keyPrefix', 'isActive', 'lastUsedAt', 'createdAt'),
  },
} as const

const record = exactly({
  id: field.uuid,
  name: field.text(),
  keyPrefix: field.text(),
  isActive: field.flag,
  lastUsedAt: field.timeOrNull,
  createdAt: field.time,
})
const created = exactly({
  id: field.uuid,
  name: field.text(),
  keyPrefix: field.text(),
  apiKey: field.text('The API key. Only this response contains the API key.'),
})
const revoked = exactly({
  id: field.uuid,
  revoked: { const: true },
  isActive: { const: false },
  revokedAt: field.time,
})

/** `/api/agent/keys` are the API keys of the caller's store. */
export function keyRoutes(app: FastifyInstance, api: Api): void {
  const undelivered = new UndeliveredResponses<MadeKey>(api.clock)

  app.get(
    '/api/agent/keys',
    {
      schema: {
        summary: 'List the API keys',
        description: `Lists the active API keys, then up to ${LISTED_REVOKED_KEYS} revoked API keys.`,
        response: respond({ 200: success(exactly({ keys: listOf(record) })) }, [401, 429]),
      },
    },
    async (request) => {
      const keys = await api.keys.ofStore(callerOf(request).store.id)
      return ok({ keys: inListOrder(keys).map(toRecord) })
    },
  )

  app.post<{ Body: Infer<typeof createBody> | undefined }>(
    '/api/agent/keys',
    {
      schema: {
        summary: 'Create an API key',
        description: `A store can have at most ${api.maxActiveKeys} active API keys, and create at most ${api.limits.newKeysPerHour} per hour. A signed-in browser needs Developer Mode for this route. A request with an API key does not, so you can always replace an API key. If a client disconnects before the response and repeats the request within a minute, the gateway creates no second API key.`,
        body: createBody,
        response: respond({ 201: success(created) }, [400, 401, 403, 409, 429]),
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const { store } = caller
      if (caller.session !== null && !store.developerModeEnabled) {
        throw new TollgateError(
          'FORBIDDEN',
          'Developer Mode is off. Turn it on in the profile to create API keys here. Existing keys keep working.',
        )
      }
      const made = await undelivered.take(request, caller.id)
      const isThere = made !== undefined && (await api.keys.byHash(made.key.keyHash))?.isActive
      const making = isThere ? Promise.resolve(made) : makeKey(api, reply, store.id, request.body?.name)
      undelivered.watch(request, reply, caller.id, making)
      const { key, apiKey } = await making
      return reply.code(201).send(ok({ id: key.id, name: key.name, keyPrefix: key.keyPrefix, apiKey }))
    },
  )

  app.delete<{ Params: IdParams }>(
    '/api/agent/keys/:id',
    {
      schema: {
        summary: 'Revoke an API key',
        description:
          'Revokes an API key permanently. After this response, the API key cannot change anything. If you send the request again, the response is the same.',
        params: idParams,
        response: respond({ 200: success(revoked) }, [401, 404, 429]),
      },
    },
    async (request) => {
      const unknown = 'Your store has no API key with this id.'
      const id = idOrNotFound(request.params.id, 'NOT_FOUND', unknown)
      const nowMs = api.clock.now()
      const key = await api.keys.revoke(callerOf(request).store.id, id, nowMs)
      if (key === undefined) throw new TollgateError('NOT_FOUND', unknown)
      api.keyRing.forget(key.keyHash)
      return ok({ id: key.id, revoked: true, isActive: false, revokedAt: isoTime(key.revokedAtMs ?? nowMs) })
    },
  )
}

interface MadeKey {
  readonly key: ApiKey
  /** The full key. */
  readonly apiKey: string
}

async function makeKey(
  api: Api,
  reply: FastifyReply,
  storeId: string,
  name: string | null | undefined,
): Promise<MadeKey> {
  const { newKeysPerHour } = api.limits
  const taken = await api.counters.take(`new-keys:${storeId}`, 1, newKeysPerHour, HOUR_MS)
  if (!taken.ok) refuse(api, reply, taken, newKeysPerHour)
  const apiKey = createApiKey()
  const key: ApiKey = {
    id: randomUUID(),
    storeId,
    name: name ?? 'Unnamed key',
    keyPrefix: prefixOf(apiKey),
    keyHash: api.keyRing.hashOf(apiKey),
    isActive: true,
    lastUsedAtMs: null,
    revokedAtMs: null,
    createdAtMs: api.clock.now(),
  }
  await api.keys.add(key, api.maxActiveKeys).catch((error) => {
    if (!isTollgateError(error) || error.code !== 'LIMIT_REACHED') throw error
    const words = `The store has reached its limit of ${api.maxActiveKeys} active keys. Revoke one first.`
    throw new TollgateError('LIMIT_REACHED', words)
  })
  return { key, apiKey }
}

function inListOrder(keys: readonly ApiKey[]): ApiKey[] {
  const newestFirst = [...keys].sort((a, b) => b.createdAtMs - a.createdAtMs)
  const isRevoked = newestFirst
    .filter((key) => !key.isActive)
    .sort((a, b) => (b.revokedAtMs ?? 0) - (a.revokedAtMs ?? 0))
  return [...newestFirst.filter((key) => key.isActive), ...isRevoked.slice(0, LISTED_REVOKED_KEYS)]
}

const toRecord = (key: ApiKey) => ({
  id: key.id,
  name: key.name,
  keyPrefix: key.keyPrefix,
  isActive: key.isActive,
  lastUsedAt: isoTimeOrNull(key.lastUsedAtMs),
  createdAt: isoTime(key.createdAtMs),
})
