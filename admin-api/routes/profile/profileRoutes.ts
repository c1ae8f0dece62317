import type { FastifyInstance } from 'fastify'
import type { Store } from '../../../core/domain/store.ts'
import { TollgateError } from '../../../core/errors/error.ts'
import { callerOf } from '../../auth/authenticate.ts'
import type { Api } from '../../deps.ts'
import { ok } from '../../http/envelope.ts'
import { answers, success } from '../../schema/answers.ts'
import { type ProfileBody, profileBody, readProfilePatch } from './profilePatch.ts'
import { profileSchema, toProfile } from './profileView.ts'

/** `/api/v1/profile`: the caller's own store. Reading it has no envelope (marketplace interface, section 2). */
export function profileRoutes(app: FastifyInstance, api: Api): void {
  const tags = ['Profile']
  const view = async (store: Store) => toProfile(store, await api.payoutFaults(store.payout))

  app.get(
    '/api/v1/profile',
    { schema: { tags, summary: 'Read the profile', response: answers({ 200: profileSchema }, 401, 429) } },
    async (request) => view(callerOf(request).store),
  )

  app.patch<{ Body: ProfileBody }>(
    '/api/v1/profile',
    {
      schema: {
        tags,
        summary: 'Change the profile',
        body: profileBody,
        response: answers({ 200: success(profileSchema) }, 400, 401, 409, 429),
      },
    },
    async (request) => {
      const { store } = callerOf(request)
      const patch = await readProfilePatch(api, store, request.body)
      if (Object.keys(patch).length === 0) return ok(await view(store))
      const updated = await api.stores.update(store.id, patch, api.clock.now(), api.maxRenamesPerDay)
      if (updated === undefined) throw new TollgateError('UNAUTHORIZED', 'The store of this API key is gone.')
      for (const username of new Set([store.username, updated.username])) {
        api.announce({ kind: 'store', username })
      }
      return ok(await view(updated))
    },
  )
}
