import type { LinkType } from '../../core/domain/link.ts'
import { Icon } from '../components/button.ts'
import { Avatar } from '../components/card.ts'
import { Amount } from '../components/money.ts'
import { html } from '../html.ts'

/** A link in a list of links. */
export interface Result {
  readonly title: string
  readonly description: string
  readonly slug: string
  /** Price as a decimal string. Null for a free link. */
  readonly price: string | null
  /** The highest price, if the price depends on the request. */
  readonly priceMax: string | null
  readonly username: string
  readonly displayName: string
  readonly avatarUrl: string
  readonly tags: readonly string[]
  readonly stats: ResultStats
}

export interface ResultStats {
  /** A `standard` link has no API. Buyers buy it, but it is not called or checked. */
  readonly linkType: LinkType
  /** Number of distinct buyer wallets. */
  readonly buyers: number
  /** Percentage over 30 days. Null without data. */
  readonly uptime: number | null
  /** Percentage of positive reviews. Null without reviews. */
  readonly rating: number | null
  readonly reviews: number
  /** Calls in 30 days. */
  readonly calls: number
}

const SHOWN_TAGS = 3

/** A price, or "Free". */
export const Price = ({
  price,
  priceMax,
  isBig = false,
}: {
  readonly price: string | null
  readonly priceMax: string | null
  readonly isBig?: boolean
}) =>
  price === null
    ? html`<span class=${isBig ? 'amount big free' : 'amount free'}>Free</span>`
    : html`<${Amount} value=${price} upTo=${priceMax} isBig=${isBig} />`

/** `1 234`, `56k`, `1.2M` */
export const shortCount = (count: number): string =>
  new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 }).format(count)

/** A link's statistics. Missing data is named as missing and not shown as zero. */
export const Stats = ({ linkType, uptime, rating, reviews, calls, buyers }: ResultStats) =>
  html`<ul class="stats">
    ${linkType === 'api' && html`<li><${Icon} name="pulse" />${uptime === null ? 'No uptime data yet' : `${uptime}% up`}</li>`}
    <li><${Icon} name="thumbUp" />${rating === null ? 'No reviews yet' : `${rating}% of ${shortCount(reviews)} ${reviews === 1 ? 'review' : 'reviews'}`}</li>
    <li><${Icon} name="bars" />${linkType === 'api' ? `${shortCount(calls)} ${calls === 1 ? 'call' : 'calls'} in 30 days` : `${shortCount(buyers)} ${buyers === 1 ? 'buyer' : 'buyers'}`}</li>
  </ul>`

/** A list of links. In a store's own list, the store's name is left out. */
export const Results = ({
  links,
  isOfStore = false,
}: {
  readonly links: readonly Result[]
  readonly isOfStore?: boolean
}) =>
  html`<ul class="results">
    ${links.map(
      (link) => html`<li class="result">
        ${!isOfStore && html`<${Avatar} name=${link.displayName} url=${link.avatarUrl} />`}
        <div class="about">
          <h3 dir="auto"><a class="result-title" href=${`/${link.username}/${link.slug}`}>${link.title}</a></h3>
          ${!isOfStore && html`<p class="small soft">by <a class="quiet-link" href=${`/${link.username}`}><bdi>${link.displayName}</bdi></a></p>`}
          ${link.description && html`<p class="line" dir="auto">${link.description}</p>`}
          <${Stats} ...${link.stats} />
        </div>
        <div class="cost">
          <${Price} price=${link.price} priceMax=${link.priceMax} />
          ${link.price !== null && html`<span class="small soft">${link.stats.linkType === 'api' ? 'per call' : 'once'}</span>`}
          ${
            link.tags.length > 0 &&
            html`<ul class="tags">${link.tags.slice(0, SHOWN_TAGS).map((tag) => html`<li><a class="tag" href=${`/?tag=${encodeURIComponent(tag)}`}>${tag}</a></li>`)}</ul>`
          }
        </div>
      </li>`,
    )}
  </ul>`
