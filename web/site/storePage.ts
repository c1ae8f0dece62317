import { Icon } from '../components/button.ts'
import { Avatar, Empty } from '../components/card.ts'
import { Pagination } from '../components/table.ts'
import { html } from '../html.ts'
import { type Result, Results, shortCount } from './result.ts'
import { ReviewList, type ReviewListProps } from './reviews.ts'
import { SiteShell } from './siteShell.ts'

export interface StorePageProps {
  readonly serviceName: string
  readonly store: {
    readonly username: string
    readonly displayName: string
    readonly bio: string
    readonly avatarUrl: string
    readonly createdAtMs: number
  }
  readonly socials: readonly { readonly type: string; readonly url: string }[]
  readonly links: readonly Result[]
  readonly total: number
  readonly limit: number
  readonly offset: number
  /** Calls of all links in 30 days. */
  readonly calls: number
  readonly reviews: ReviewListProps
}

/** The page of a store. It shows the seller, the store's age, its links, and its reviews. */
export function StorePage(props: StorePageProps) {
  const { serviceName, store, socials, links, total, limit, offset, calls, reviews } = props
  const { username, displayName, bio, avatarUrl, createdAtMs } = store
  const since = new Date(createdAtMs).toLocaleDateString('en-GB', {
    month: 'long',
    year: 'numeric',
    timeZone: 'UTC',
  })
  return html`<${SiteShell} serviceName=${serviceName}>
    <div class="store">
      <header class="profile">
        <${Avatar} name=${displayName} url=${avatarUrl} isBig=${true} />
        <div class="stack tight">
          <h1><bdi>${displayName}</bdi></h1>
          <p class="soft">@${username}</p>
        </div>
        ${bio && html`<p class="bio" dir="auto">${bio}</p>`}
        <ul class="stats">
          <li>Selling since ${since}</li>
          <li>${total} ${total === 1 ? 'link' : 'links'}</li>
          <li>${shortCount(calls)} ${calls === 1 ? 'call' : 'calls'} in 30 days</li>
          ${reviews.rating !== null && html`<li>${reviews.rating}% of ${reviews.total} reviews positive</li>`}
        </ul>
        ${
          socials.length > 0 &&
          html`<ul class="socials">${socials.map(
            ({ type, url }) =>
              html`<li><a class="social" href=${url} rel="nofollow noopener noreferrer me">${socialTitles[type] ?? type} <${Icon} name="external" /></a></li>`,
          )}</ul>`
        }
      </header>
      <section class="stack" aria-labelledby="links">
        <h2 id="links">Links</h2>
        ${
          total === 0
            ? html`<${Empty} title="This store has no public links"><p>Links that the seller lists appear here.</p><//>`
            : html`<${Results} links=${links} isOfStore=${true} />`
        }
        <${Pagination} total=${total} limit=${limit} offset=${offset} hrefOf=${(at: number) => `/${username}${at > 0 ? `?offset=${at}` : ''}`} />
      </section>
      <${ReviewList} ...${reviews} />
      <p class="small soft">For your tools: <a href=${`/${username}/openapi.json`}>OpenAPI of this store</a></p>
    </div>
  <//>`
}

const socialTitles: Readonly<Record<string, string>> = {
  x: 'X',
  github: 'GitHub',
  telegram: 'Telegram',
  web3_bio: 'Web3.bio',
  website: 'Website',
  youtube: 'YouTube',
  linkedin: 'LinkedIn',
  discord: 'Discord',
  facebook: 'Facebook',
  tiktok: 'TikTok',
  instagram: 'Instagram',
}
