import type { LinkType } from '../../core/domain/link.ts'
import { Amount } from '../components/amount.ts'
import { Avatar } from '../components/avatar.ts'
import { Icon } from '../components/icon.ts'
import { html } from '../html.ts'

/** A link as lists of links show it. */
export interface Result {
  readonly title: string
  readonly description: string
  readonly slug: string
  /** Decimal string; null for a free one. */
  readonly price: string | null
  readonly username: string
  readonly displayName: string
  readonly avatarUrl: string
  readonly tags: readonly string[]
  readonly stats: ResultStats
}

export interface ResultStats {
  /** A `standard` link has no API: it is bought, and neither called nor checked. */
  readonly linkType: LinkType
  /** Different wallets that bought. */
  readonly buyers: number
  /** Percentage of 30 days; null where nothing is known. */
  readonly uptime: number | null
  /** Percentage of positive reviews, and how many there are. */
  readonly rating: number | null
  readonly reviews: number
  /** Of 30 days. */
  readonly calls: number
}

const SHOWN_TAGS = 3

/** A price, or the word for none. */
export const Price = ({
  price,
  isBig = false,
}: {
  readonly price: string | null
  readonly isBig?: boolean
}) =>
  price === null
    ? html`<span class=${isBig ? 'amount big free' : 'amount free'}>Free</span>`
    : html`<${Amount} value=${price} isBig=${isBig} />`

/** `1 234`, `56k`, `1.2M` */
export const shortCount = (count: number): string =>
  new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 }).format(count)

/** How a link does: what is not known yet is said so, not shown as nought. */
export const Stats = ({ linkType, uptime, rating, reviews, calls, buyers }: ResultStats) =>
  html`<ul class="stats">
    ${linkType === 'api' && html`<li><${Icon} name="pulse" />${uptime === null ? 'Uptime not known yet' : `${uptime}% up`}</li>`}
    <li><${Icon} name="thumbUp" />${rating === null ? 'No reviews yet' : `${rating}% of ${shortCount(reviews)} ${reviews === 1 ? 'review' : 'reviews'}`}</li>
    <li><${Icon} name="bars" />${linkType === 'api' ? `${shortCount(calls)} ${calls === 1 ? 'call' : 'calls'} in 30 days` : `${shortCount(buyers)} ${buyers === 1 ? 'buyer' : 'buyers'}`}</li>
  </ul>`

/** Links below each other. In a store's own list, its name is left out. */
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
          <${Price} price=${link.price} />
          ${link.price !== null && html`<span class="small soft">${link.stats.linkType === 'api' ? 'a call' : 'once'}</span>`}
          ${
            link.tags.length > 0 &&
            html`<ul class="tags">${link.tags.slice(0, SHOWN_TAGS).map((tag) => html`<li><a class="tag" href=${`/?tag=${encodeURIComponent(tag)}`}>${tag}</a></li>`)}</ul>`
          }
        </div>
      </li>`,
    )}
  </ul>`
