import type { Link } from '../../../core/domain/link.ts'
import type { Store } from '../../../core/domain/store.ts'
import { TollgateError } from '../../../core/errors/error.ts'
import type { LinkPatch } from '../../../core/ports/links.ts'
import type { Api } from '../../deps.ts'
import type { UpdateLinkBody } from './linkBodies.ts'
import { readLinkFields } from './readLinkFields.ts'
import {
  announceLink,
  refuseUncallable,
  refuseUnpayable,
  refuseUnreachable,
  stealthWins,
} from './saveLink.ts'
import { createPrivateSlug } from './slugs.ts'

/** Changes a link. A paid one is checked again only when its url, its price or its type changes. */
export async function updateLink(api: Api, store: Store, link: Link, body: UpdateLinkBody): Promise<Link> {
  const fields = readLinkFields(api, link.id, body)
  if (Object.keys(fields).length === 0) return link

  const next = stealthWins({ ...link, ...fields, ...privateSlugOf(link, fields.isStealth) })
  const { isPublic, privateSlug } = next
  const patch: LinkPatch = { ...fields, isPublic, privateSlug }
  refuseUnpayable(api, store.payout, next)
  await refuseUncallable(api, next, link)
  const isProbed = next.url !== link.url || next.price !== link.price || next.linkType !== link.linkType
  const probed = isProbed ? await refuseUnreachable(api, next) : undefined
  const updated = await api.links.update(link.id, patch, api.clock.now())
  if (updated === undefined) throw new TollgateError('LINK_NOT_FOUND')
  await probed?.saved()
  announceLink(api, store.username, link, updated)
  return updated
}

/** A link that becomes stealth gets its secret address, one that stops loses it; both stay as they are otherwise. */
function privateSlugOf(link: Link, isStealth: boolean | undefined): LinkPatch {
  if (isStealth === undefined || isStealth === link.isStealth) return {}
  return { privateSlug: isStealth ? createPrivateSlug() : null }
}
