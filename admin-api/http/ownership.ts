import type { FastifyRequest } from 'fastify'
import type { Link } from '../../core/domain/link.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import type { WebhookEndpoint } from '../../core/domain/webhook.ts'
import type { ErrorCode } from '../../core/errors/codes.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { callerOf } from './callers.ts'
import { validationError } from './validation.ts'

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export const isUuid = (text: string): boolean => uuidForm.test(text)

/**
 * The id from a path, in lower case. A text that is not a UUID gets the code of an unknown id, and the given message.
 *
 * @throws the given 404 code
 */
export function idOrNotFound(id: string, code: ErrorCode, message: string): string {
  if (isUuid(id)) return id.toLowerCase()
  throw new TollgateError(code, message)
}

/** Parameters of every route that ends in an id. */
export const idParams = {
  type: 'object',
  required: ['id'],
  properties: { id: { type: 'string', format: 'uuid' } },
} as const

export interface IdParams {
  readonly id: string
}

/**
 * A record of the caller's store by its id. A record of another store gets the same error as a record that never existed.
 * @throws the given code
 */
async function ownOf<T extends { readonly storeId: string }>(
  request: FastifyRequest,
  id: string,
  what: string,
  find: (id: string) => Promise<T | undefined>,
  code: ErrorCode = 'NOT_FOUND',
): Promise<T> {
  const unknown = `Your store has no ${what} with this id.`
  const found = await find(idOrNotFound(id, code, unknown))
  if (found?.storeId === callerOf(request).store.id) return found
  throw new TollgateError(code, unknown)
}

/** The caller's purchase of this id. @throws `NOT_FOUND` */
export const ownPurchase = (api: Api, request: FastifyRequest, id: string): Promise<Purchase> =>
  ownOf(request, id, 'purchase', (id) => api.purchases.find(id))

/** The caller's webhook of this id. @throws `NOT_FOUND` */
export const ownWebhook = (api: Api, request: FastifyRequest, id: string): Promise<WebhookEndpoint> =>
  ownOf(request, id, 'webhook', (id) => api.webhooks.find(id))

/** The caller's link with this id. Deleted links are included, because their records stay. @throws `LINK_NOT_FOUND` */
export const ownLink = (api: Api, request: FastifyRequest, id: string): Promise<Link> =>
  ownOf(request, id, 'link', (id) => api.links.find(id), 'LINK_NOT_FOUND')

/** Like {@link ownLink}, for operations that need an active link. @throws `LINK_NOT_FOUND`, `CONFLICT` if the link was deleted */
export async function ownActiveLink(api: Api, request: FastifyRequest, id: string): Promise<Link> {
  const link = await ownLink(api, request, id)
  if (!link.isActive) throw new TollgateError('CONFLICT', 'This link was deleted. Create a new link.')
  return link
}

/**
 * The `linkId` of a query string, checked to be a link of the caller; undefined if the query has none.
 *
 * @throws `VALIDATION_ERROR` when it is not a UUID, `LINK_NOT_FOUND`
 */
export async function ownLinkFilter(
  api: Api,
  request: FastifyRequest,
  linkId: string | undefined,
): Promise<string | undefined> {
  if (linkId === undefined) return
  if (!isUuid(linkId)) {
    throw validationError([{ path: 'linkId', code: 'format', message: 'Expected the id of a link, a UUID.' }])
  }
  return (await ownLink(api, request, linkId)).id
}
