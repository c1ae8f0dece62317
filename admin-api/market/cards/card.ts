import { hash } from 'node:crypto'
import { isPaid, type ServedLink } from '../../../core/domain/link.ts'
import { networkTitle } from '../../../core/domain/network.ts'
import type { Store } from '../../../core/domain/store.ts'
import type { Api } from '../../deps.ts'

/** The texts on a page's preview image (1200 × 630). Other services display the image where a user shares the page's address. */
export interface Card {
  readonly serviceName: string
  readonly heading: string
  /** Replaces the heading if the font lacks some of its letters. */
  readonly plainHeading: string
  /** The image omits this text if the font lacks its letters, or if there is no room. */
  readonly about: string
  /** The seller. Null on cards of stores and of the service. */
  readonly seller: { readonly name: string; readonly plainName: string } | null
  /** Decimal USDC, or `free`. Null on cards of stores and of the service. */
  readonly price: string | null
  /** `from` if `price` is the lowest of several prices, `up to` if it is the highest. Null if every call has one price. */
  readonly bound: 'from' | 'up to' | null
  /** Names of networks, or the page's address on cards without a price. */
  readonly foot: readonly string[]
}

/** The card of a link's page. Only public links have one. */
export const cardOfLink = (api: Api, link: ServedLink, store: Store | undefined): Card => ({
  serviceName: api.serviceName,
  heading: link.title,
  plainHeading: `${link.username}/${link.slug}`,
  about: link.description,
  seller: { name: store?.displayName ?? link.username, plainName: `@${link.username}` },
  price: isPaid(link) ? link.price : 'free',
  bound: link.priceMax === null ? null : link.priceMax === link.price ? 'up to' : 'from',
  foot: [...new Set(api.termsOf(link).map(({ network }) => networkTitle(network)))],
})

/** The card of a store's page. */
export const cardOfStore = (
  { serviceName, publicUrl }: Api,
  { displayName, username, bio }: Store,
): Card => ({
  serviceName,
  heading: displayName,
  plainHeading: `@${username}`,
  about: bio,
  seller: null,
  price: null,
  bound: null,
  foot: [`${hostOf(publicUrl)}/${username}`],
})

/** The card of the marketplace. */
export const cardOfMarket = ({ serviceName, publicUrl }: Api): Card => ({
  serviceName,
  heading: 'APIs that agents pay per call',
  plainHeading: hostOf(publicUrl),
  about: 'No account and no API key. See the price, pay, get the response.',
  seller: null,
  price: null,
  bound: null,
  foot: [hostOf(publicUrl)],
})

/**
 * The URL of a page's card, which is `card.png` below the page. The URL changes with the content of the card, because other
 * services may cache images for any time.
 * @param path of the page, such as `/`, `/username` or `/username/slug`
 */
export const cardUrl = ({ publicUrl }: Api, path: string, card: Card): string =>
  `${publicUrl}${path.replace(/\/$/, '')}/card.png?v=${cardVersion(card)}`

/** The version of a card. Different cards have different versions. */
export const cardVersion = (card: Card): string =>
  hash('sha256', JSON.stringify(card), 'base64url').slice(0, 16)

const hostOf = (publicUrl: string): string => publicUrl.replace(/^https?:\/\//, '')
