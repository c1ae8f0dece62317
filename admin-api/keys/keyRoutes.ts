import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { ApiKey } from '../../core/domain/store.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import { createApiKey, prefixOf } from '../auth/apiKey.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { isoTime, isoTimeOrNull, ok } from '../http/envelope.ts'
import { type IdParams, idOrNotFound, idParams } from '../http/ids.ts'
import { hourMs, refuse } from '../http/rateLimits.ts'
import { answers, exactly, flag, listOf, success, text, time, timeOrNull, uuid } from '../schema/answers.ts'
import { fromAnswers, keyNameField } from '../schema/fields.ts'
import type { Infer } from '../schema/infer.ts'
import { UnheardAnswers } from './unheardAnswers.ts'

/** Revoked keys are listed too, the latest first, up to this many. */
const LISTED_REVOKED_KEYS = 20

const createBody = {
  type: ['object', 'null'],
  additionalProperties: false,
  properties: {
    name: { ...keyNameField, type: ['string', 'null'] },
    ...fromAnswers('id', 'keyPrefix', 'isActive', 'lastUsedAt', 'createdAt'),
  },
} as const

const record = exactly({
  id: uuid,
  name: text(),
  keyPrefix: text(),
  isActive: flag,
  lastUsedAt: timeOrNull,
  createdAt: time,
})
const created = exactly({ id: uuid, name: text(), keyPrefix: text(), apiKey: text('Shown once.') })
const revoked = exactly({ id: uuid, revoked: { const: true }, isActive: { const: false }, revokedAt: time })

/** `/api/agent/keys`: the API keys of the caller's store. */
export function keyRoutes(app: FastifyInstance, api: Api): void {
  const unheard = new UnheardAnswers<MadeKey>(api.clock)

  app.get(
    '/api/agent/keys',
    {
      schema: {
        summary: 'List the API keys',
        description: `Active keys, then up to ${LISTED_REVOKED_KEYS} revoked ones.`,
        response: answers({ 200: success(exactly({ keys: listOf(record) })) }, 401, 429),
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
        description: `A store has at most ${api.maxActiveKeys} active keys, and makes at most ${api.limits.newKeysPerHour} in an hour. Developer Mode is not asked of a key: whoever has one may replace it. A signed-in browser needs it. Sent again within a minute by a client that was gone before the answer, it makes no other key.`,
        body: createBody,
        response: answers({ 201: success(created) }, 400, 401, 403, 409, 429),
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const { store } = caller
      if (caller.session !== null && !store.developerModeEnabled) {
        throw new TollgateError(
          'FORBIDDEN',
          'Developer Mode is off. Turn it on in the profile to make API keys here; keys that work go on working.',
        )
      }
      const made = await unheard.take(request, caller.id)
      const isThere = made !== undefined && (await api.keys.byHash(made.key.keyHash))?.isActive
      const making = isThere ? Promise.resolve(made) : makeKey(api, reply, store.id, request.body?.name)
      unheard.watch(request, reply, caller.id, making)
      const { key, apiKey } = await making
      return reply.code(201).send(ok({ id: key.id, name: key.name, keyPrefix: key.keyPrefix, apiKey }))
    },
  )

  app.delete<{ Params: IdParams }>(
    '/api/agent/keys/:id',
    {
      schema: {
        summary: 'Revoke an API key',
        description: 'For good: from this answer on the key changes nothing. Repeating it answers the same.',
        params: idParams,
        response: answers({ 200: success(revoked) }, 401, 404, 429),
      },
    },
    async (request) => {
      const id = idOrNotFound(request.params.id, 'NOT_FOUND')
      const nowMs = api.clock.now()
      const key = await api.keys.revoke(callerOf(request).store.id, id, nowMs)
      if (key === undefined) throw new TollgateError('NOT_FOUND', 'The store has no API key with this id.')
      api.keyRing.forget(key.keyHash)
      return ok({ id: key.id, revoked: true, isActive: false, revokedAt: isoTime(key.revokedAtMs ?? nowMs) })
    },
  )
}

interface MadeKey {
  readonly key: ApiKey
  /** The whole key. */
  readonly apiKey: string
}

async function makeKey(
  api: Api,
  reply: FastifyReply,
  storeId: string,
  name: string | null | undefined,
): Promise<MadeKey> {
  const { newKeysPerHour } = api.limits
  const taken = await api.counters.take(`new-keys:${storeId}`, 1, newKeysPerHour, hourMs)
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
    const words = `The store has ${api.maxActiveKeys} active keys, the most it may have; revoke one first.`
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
