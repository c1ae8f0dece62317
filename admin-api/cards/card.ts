import { hash } from 'node:crypto'
import { isPaid, type ServedLink } from '../../core/domain/link.ts'
import { networkTitle } from '../../core/domain/network.ts'
import type { Store } from '../../core/domain/store.ts'
import type { Api } from '../deps.ts'

/** A picture of a page, 1200 × 630, as services show it where the page's address is shared. All that it depends on. */
export interface Card {
  readonly serviceName: string
  readonly heading: string
  /** Stands there instead where the heading has letters that the card's font lacks. */
  readonly plainHeading: string
  /** Left out of the picture where the font lacks its letters, or where there is no room. */
  readonly about: string
  /** The seller; null on cards of stores and of the service. */
  readonly seller: { readonly name: string; readonly plainName: string } | null
  /** Decimal USDC, or `free`; null where nothing is sold. */
  readonly price: string | null
  /** Names of networks, or the page's address where nothing is sold. */
  readonly foot: readonly string[]
}

/** A picture of a link's page. Only of links that strangers may see. */
export const cardOfLink = (api: Api, link: ServedLink, store: Store | undefined): Card => ({
  serviceName: api.serviceName,
  heading: link.title,
  plainHeading: `${link.username}/${link.slug}`,
  about: link.description,
  seller: { name: store?.displayName ?? link.username, plainName: `@${link.username}` },
  price: isPaid(link) ? link.price : 'free',
  foot: [...new Set(api.termsOf(link).map(({ network }) => networkTitle(network)))],
})

/** A picture of a store's page. */
export const cardOfStore = (
  { serviceName, publicUrl }: Api,
  { displayName, username, bio }: Store,
): Card => ({
  ...{
    serviceName,
    heading: displayName,
    plainHeading: `@${username}`,
    about: bio,
    seller: null,
    price: null,
  },
  foot: [`${hostOf(publicUrl)}/${username}`],
})

/** A picture of the marketplace. */
export const cardOfMarket = ({ serviceName, publicUrl }: Api): Card => ({
  ...{ serviceName, heading: 'APIs that agents pay per call', plainHeading: hostOf(publicUrl) },
  about: 'No account, no key: a price, a payment, an answer.',
  ...{ seller: null, price: null, foot: [hostOf(publicUrl)] },
})

/**
 * Where a page's card is: `card.png` below the page. The address changes with what the card says, because services keep
 * a picture as long as they like.
 * @param path of the page: `/`, `/username` or `/username/slug`
 */
export const cardUrl = ({ publicUrl }: Api, path: string, card: Card): string =>
  `${publicUrl}${path.replace(/\/$/, '')}/card.png?v=${cardVersion(card)}`

/** Another one for every other card. */
export const cardVersion = (card: Card): string =>
  hash('sha256', JSON.stringify(card), 'base64url').slice(0, 16)

const hostOf = (publicUrl: string): string => publicUrl.replace(/^https?:\/\//, '')
