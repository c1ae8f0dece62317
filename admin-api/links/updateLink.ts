import type { Link } from '../../core/domain/link.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { LinkPatch } from '../../core/ports/store/links.ts'
import type { Api } from '../deps.ts'
import { announceLink } from './announceLink.ts'
import type { UpdateLinkBody } from './linkBodies.ts'
import {
  refuseMovedCredential,
  refuseUncallable,
  refuseUnpayable,
  refuseUnreachable,
  stealthWins,
} from './linkRules.ts'
import { readLinkFields } from './readLinkFields.ts'
import { createPrivateSlug } from './slugs.ts'

/** Changes of one link that meet each other this often are no accident. */
const MAX_TRIES = 5

/**
 * Changes a link. A paid one is checked again only when its url, its price or its type changes.
 *
 * A health check takes seconds, and whoever changes the link meanwhile, say to make it stealth, must not have that undone:
 * the change is made again from the link as it has become then.
 *
 * @param imported what an import says of the link beside its fields
 * @throws what the steps it names throw, `SLUG_ALREADY_EXISTS`, `LINK_NOT_FOUND` when it was deleted meanwhile, `CONFLICT`
 */
export async function updateLink(
  api: Api,
  store: Store,
  link: Link,
  body: UpdateLinkBody,
  imported: Pick<LinkPatch, 'origin'> = {},
): Promise<Link> {
  const fields = { ...readLinkFields(api, link.id, body), ...imported }
  if (Object.keys(fields).length === 0) return link

  let checked: { readonly as: Link; saved(): Promise<void> } | undefined
  let present = link
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    const next = stealthWins({ ...present, ...fields, ...privateSlugOf(present, fields.isStealth) })
    const { isPublic, privateSlug } = next
    refuseMovedCredential(present, fields)
    refuseUnpayable(api, store.payout, next)
    await refuseUncallable(api, next, present)
    if (!isSameApi(next, present) && !(checked && isSameApi(next, checked.as))) {
      checked = { as: next, ...(await refuseUnreachable(api, next)) }
    }
    const patch: LinkPatch = { ...fields, isPublic, privateSlug }
    const updated = await api.links.update(link.id, patch, api.clock.now(), present.version)
    if (updated !== undefined) {
      await checked?.saved()
      announceLink(api, store.username, present, updated)
      return updated
    }
    const latest = await api.links.find(link.id)
    if (!latest?.isActive) throw new TollgateError('LINK_NOT_FOUND', 'The link was deleted meanwhile.')
    present = latest
  }
  throw new TollgateError('CONFLICT', 'The link is being changed by other requests; send this one again.')
}

/** Whether a health check of one says the same of the other. */
const isSameApi = (a: Link, b: Link): boolean =>
  a.url === b.url && a.price === b.price && a.linkType === b.linkType

/** A link that becomes stealth gets its secret address, one that stops loses it; both stay as they are otherwise. */
function privateSlugOf(link: Link, isStealth: boolean | undefined): LinkPatch {
  if (isStealth === undefined || isStealth === link.isStealth) return {}
  return { privateSlug: isStealth ? createPrivateSlug() : null }
}
