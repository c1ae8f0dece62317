import type { FastifyRequest } from 'fastify'
import type { WebhookEndpoint } from '../../core/domain/webhook.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { idOrNotFound } from '../http/ids.ts'

/**
 * A webhook of the caller's store. Another store's answers like one that does not exist.
 *
 * @throws `NOT_FOUND`
 */
export async function ownWebhook(api: Api, request: FastifyRequest, id: string): Promise<WebhookEndpoint> {
  const endpoint = await api.webhooks.find(idOrNotFound(id, 'NOT_FOUND'))
  if (endpoint !== undefined && endpoint.storeId === callerOf(request).store.id) return endpoint
  throw new TollgateError('NOT_FOUND', 'Your store has no webhook with this id.')
}
