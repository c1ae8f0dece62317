import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ServedLink } from '../../core/domain/link.ts'
import type { DiscoveryQuery } from '../../core/ports/discovery.ts'
import type { Api } from '../deps.ts'

/** Links that are read before other work of the process gets its turn. */
const LINKS_PER_TURN = 16

export interface DescribedPage {
  readonly links: readonly ServedLink[]
  readonly total: number
  /** How many a page had, those among them that went in between. */
  readonly found: number
}

/** Listed links with what their sellers say of input and output. What is no longer there is left out. */
export async function describedLinks(api: Api, query: DiscoveryQuery): Promise<DescribedPage> {
  const { links, total } = await api.discovery.search(query)
  const described: ServedLink[] = []
  for (const [i, { id, username, slug }] of links.entries()) {
    if (i > 0 && i % LINKS_PER_TURN === 0) await nextTurn()
    const link = await api.links.served(username, slug)
    if (link?.id === id && isListed(link)) described.push(link)
  }
  return { links: described, total, found: links.length }
}

const isListed = ({ isActive, isPublic, isStealth, suspension }: ServedLink): boolean =>
  isActive && isPublic && !isStealth && suspension === null

export const addressOf = ({ username, slug }: Pick<ServedLink, 'username' | 'slug'>): string =>
  `${username}/${slug}`
