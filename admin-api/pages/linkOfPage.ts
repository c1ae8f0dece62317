import type { ServedLink } from '../../core/domain/link.ts'
import type { Api } from '../deps.ts'
import { findLink } from '../links/findLink.ts'

/**
 * The link whose page stands at this address, by a former address too, as long as that redirects. Public links have a page,
 * suspended ones included; a `standard` link has one for everyone who knows its address, because it is bought there.
 */
export async function linkOfPage(api: Api, username: string, slug: string): Promise<ServedLink | undefined> {
  const link = await findLink(api, username, slug)
  if (link === undefined) return
  return isListed(link) || link.linkType === 'standard' ? link : undefined
}

/** Whether strangers find it. */
export const isListed = ({ isPublic, isStealth }: ServedLink): boolean => isPublic && !isStealth

/** `username/slug` of a link's page; of a stealth link by its private slug. */
export const pageAddressOf = ({ username, privateSlug, slug }: ServedLink): string =>
  `${username}/${privateSlug ?? slug}`
