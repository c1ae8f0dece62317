import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ServedLink } from '../../core/domain/link.ts'
import type { DiscoveryQuery, FoundLink } from '../../core/ports/store/discovery.ts'
import type { Api } from '../deps.ts'

/** Characters that are written before other work of the process gets its turn: a millisecond or two. */
const CHARS_PER_TURN = 50_000

export interface DescribedPage {
  /** What was written of each link. */
  readonly texts: readonly string[]
  readonly addresses: readonly string[]
  readonly total: number
  /** How many a page had, those among them that went in between. */
  readonly found: number
}

/** How links are written, each in a turn of its own where it is long: a schema and an example have up to 16 kB. */
export interface Describing {
  /** With what its seller says of input and output. */
  whole(link: ServedLink): string
  /** Without; for links that come when a document has `wholeChars`, and are read no further. */
  brief?(link: FoundLink): string
  readonly wholeChars?: number
}

/** Listed links, written one by one. What is no longer there is left out. */
export async function describedLinks(
  api: Api,
  query: DiscoveryQuery,
  { whole, brief, wholeChars = Infinity }: Describing,
): Promise<DescribedPage> {
  const { links, total } = await api.discovery.search(query)
  const texts: string[] = []
  const addresses: string[] = []
  let chars = 0
  let turnAt = CHARS_PER_TURN
  for (const found of links) {
    const text = brief && chars >= wholeChars ? brief(found) : await wholeOf(api, found, whole)
    if (text === undefined) continue
    texts.push(text)
    addresses.push(addressOf(found))
    chars += text.length
    if (chars < turnAt) continue
    turnAt = chars + CHARS_PER_TURN
    await nextTurn()
  }
  return { texts, addresses, total, found: links.length }
}

async function wholeOf(
  api: Api,
  { id, username, slug }: FoundLink,
  write: Describing['whole'],
): Promise<string | undefined> {
  const link = await api.links.served(username, slug)
  return link?.id === id && isListed(link) ? write(link) : undefined
}

const isListed = ({ isActive, isPublic, isStealth, suspension }: ServedLink): boolean =>
  isActive && isPublic && !isStealth && suspension === null

export const addressOf = ({ username, slug }: Pick<ServedLink, 'username' | 'slug'>): string =>
  `${username}/${slug}`
