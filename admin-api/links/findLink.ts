import type { ServedLink } from '../../core/domain/link.ts'
import type { Api } from '../deps.ts'

/** The link at this address, or the one that had it less than 30 days ago. */
export async function findLink(
  api: Pick<Api, 'links' | 'clock'>,
  username: string,
  slug: string,
): Promise<ServedLink | undefined> {
  const link = await api.links.served(username, slug)
  if (link !== undefined) return link
  const moved = await api.links.redirectOf(username, slug, api.clock.now())
  return moved && api.links.served(moved.username, moved.slug)
}
