import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ServedLink } from '../../core/domain/link.ts'
import type { DiscoveryQuery, FoundLink } from '../../core/ports/store/discovery.ts'
import type { Api } from '../deps.ts'

/** Number of characters that are written before the process does other work. They take one or two milliseconds. */
const CHARS_PER_TURN = 50_000

interface DescribedPage {
  /** The text of each link. */
  readonly texts: readonly string[]
  readonly addresses: readonly string[]
  readonly total: number
  /** How many links the database returned, including links that were dropped since. */
  readonly found: number
}

/** How to write a link. Each long link has its own turn of the event loop, because a schema and an example have up to 16 kB. */
export interface Describing {
  /** Writes a link with the seller's input schema and output example. */
  whole(link: ServedLink): string
  /** Writes a link without its input schema and output example. Used after the first `wholeChars` characters of a document. */
  brief?(link: FoundLink): string
  readonly wholeChars?: number
}

/** Writes listed links one at a time. Leaves out links that no longer exist. */
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
