import type { FastifyRequest } from 'fastify'
import type { Api } from '../../deps.ts'
import { isUuid } from '../../http/ids.ts'
import { validationError } from '../../schema/validationError.ts'
import { ownLink } from './ownLink.ts'

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
