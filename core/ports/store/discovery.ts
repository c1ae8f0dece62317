import type { Link, LinkId, LinkType } from '../../domain/link.ts'
import type { ChainName } from '../../domain/network.ts'
import type { ReviewCounts } from '../../domain/review.ts'

export const discoverySorts = ['relevance', 'popular', 'newest', 'price_asc', 'price_desc'] as const
export type DiscoverySort = (typeof discoverySorts)[number]

/** A search. A link must meet every condition that is set. */
export interface DiscoveryQuery {
  /**
   * Words of {@link wordsOf}. Each must be the beginning of a word in the link's title, description, tags or seller. If absent,
   * every link matches. If empty, no link matches.
   */
  readonly words?: readonly string[]
  readonly linkType?: LinkType
  /** Decimal strings. Both bounds are inclusive. */
  readonly minPrice?: string
  readonly maxPrice?: string
  /** Only paid links whose seller can be paid on this chain. */
  readonly chain?: ChainName
  readonly tag?: string
  readonly username?: string
  readonly isFree?: boolean
  /** Minimum rating in percent. Links without reviews do not match. */
  readonly minRating?: number
  /**
   * `relevance` needs words. If very many links match, the order is by popularity instead. Links that are otherwise equal are
   * sorted newest first.
   */
  readonly sort: DiscoverySort
  readonly limit: number
  readonly offset: number
}

/** A link as it appears in public search results, without the seller's private fields. */
export interface FoundLink
  extends Pick<
    Link,
    | 'title'
    | 'description'
    | 'slug'
    | 'price'
    | 'priceMax'
    | 'access'
    | 'linkType'
    | 'methods'
    | 'tags'
    | 'createdAtMs'
  > {
  readonly id: LinkId
  readonly username: string
  readonly displayName: string
  readonly avatarUrl: string
  readonly buyers: number
  readonly reviews: ReviewCounts
}

export interface FoundLinks {
  readonly links: readonly FoundLink[]
  readonly total: number
}

/** The marketplace: active public links that are neither stealth nor suspended. No method blocks the event loop. */
export interface Discovery {
  search(query: DiscoveryQuery): Promise<FoundLinks>
  /**
   * Recounts the buyers and the popularity of links that were sold or reviewed since the last recount. Once a day, it recounts all
   * popular links.
   *
   * @returns how many links it recounted. Call it again until it returns 0
   */
  recount(nowMs: number): Promise<number>
}

const MAX_WORDS = 16

/** The words of a search text. All characters other than letters and digits separate words. */
export function wordsOf(text: string): string[] {
  const words =
    text
      .toWellFormed()
      .normalize('NFKC')
      .toLowerCase()
      .match(/[\p{L}\p{N}\p{M}]+/gu) ?? []
  return [...new Set(words.filter((word) => /[\p{L}\p{N}]/u.test(word)))].slice(0, MAX_WORDS)
}
