import type { Link, LinkId, LinkType } from '../../domain/link.ts'
import type { ChainName } from '../../domain/network.ts'
import type { ReviewCounts } from '../../domain/review.ts'

export const discoverySorts = ['relevance', 'popular', 'newest', 'price_asc', 'price_desc'] as const
export type DiscoverySort = (typeof discoverySorts)[number]

/** What is looked for. Everything that is given has to hold. */
export interface DiscoveryQuery {
  /**
   * Of {@link wordsOf}: each begins a word of the link's title, description, tags or seller. None given: every link; an empty
   * list: no link.
   */
  readonly words?: readonly string[]
  readonly linkType?: LinkType
  /** Decimal strings; both belong to what is looked for. */
  readonly minPrice?: string
  readonly maxPrice?: string
  /** Paid links whose seller is paid there. */
  readonly chain?: ChainName
  readonly tag?: string
  readonly username?: string
  readonly isFree?: boolean
  /** Percentage; leaves out links without a review. */
  readonly minRating?: number
  /**
   * `relevance` needs words, and is the popular order where so many links match that it says nothing. Ties: the newest first.
   */
  readonly sort: DiscoverySort
  readonly limit: number
  readonly offset: number
}

/** A link as strangers find it: nothing that only its seller knows. */
export interface FoundLink
  extends Pick<
    Link,
    'title' | 'description' | 'slug' | 'price' | 'linkType' | 'methods' | 'tags' | 'createdAtMs'
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

/** The marketplace: active public links that are neither stealth nor suspended. Does not hold up the event loop. */
export interface Discovery {
  search(query: DiscoveryQuery): Promise<FoundLinks>
  /**
   * Counts the buyers and the popularity of some links anew: those that were sold or reviewed since, and once a day all that
   * are popular.
   * @returns how many; call again until there is none
   */
  recount(nowMs: number): Promise<number>
}

const MAX_WORDS = 16

/** The words of a search text: what is neither a letter nor a digit parts them, and is no word itself. */
export function wordsOf(text: string): string[] {
  const words =
    text
      .toWellFormed()
      .normalize('NFKC')
      .toLowerCase()
      .match(/[\p{L}\p{N}\p{M}]+/gu) ?? []
  return [...new Set(words.filter((word) => /[\p{L}\p{N}]/u.test(word)))].slice(0, MAX_WORDS)
}
