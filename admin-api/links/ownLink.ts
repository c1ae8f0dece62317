import type { FastifyRequest } from 'fastify'
import type { Link } from '../../core/domain/link.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { idOrNotFound, isUuid } from '../http/ids.ts'
import { validationError } from '../schema/validationError.ts'

/**
 * The caller's link of this id, deleted ones included: their record is kept. A link of another store is as unknown as
 * one that never was.
 *
 * @throws `LINK_NOT_FOUND`
 */
export async function ownLink(api: Api, request: FastifyRequest, id: string): Promise<Link> {
  const link = await api.links.find(idOrNotFound(id, 'LINK_NOT_FOUND'))
  if (link === undefined || link.storeId !== callerOf(request).store.id) {
    throw new TollgateError('LINK_NOT_FOUND', 'Your store has no link with this id.')
  }
  return link
}

/** The same, for what only makes sense while the link is there. @throws `LINK_NOT_FOUND`, `CONFLICT` when it was deleted */
export async function ownActiveLink(api: Api, request: FastifyRequest, id: string): Promise<Link> {
  const link = await ownLink(api, request, id)
  if (!link.isActive) throw new TollgateError('CONFLICT', 'This link was deleted; create a new one.')
  return link
}

/**
 * The `linkId` of a query string, checked to be a link of the caller; undefined when there is none.
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
