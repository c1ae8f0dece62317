import type { Link } from '../../core/domain/link.ts'
import type { Api } from '../deps.ts'

/** Tells caches about every address under which the link was or is called. */
export function announceLink(
  api: Pick<Api, 'announce'>,
  username: string,
  ...versions: readonly Link[]
): void {
  const slugs = new Set(versions.map((link) => link.privateSlug ?? link.slug))
  for (const slug of slugs) api.announce({ kind: 'link', username, slug })
}
