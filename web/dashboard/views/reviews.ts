import { Badge, Card, Empty } from '../../components/card.ts'
import { Time } from '../../components/time.ts'
import { html } from '../../html.ts'
import { Title } from '../../shell/frame.ts'
import { Load, useLoad } from '../../shell/load.ts'
import { msOf } from '../../shell/words.ts'
import { useSeller } from '../seller.ts'

interface ReviewsResponse {
  readonly reviews: readonly {
    readonly id: string
    readonly positive: boolean
    readonly comment: string | null
    readonly wallet: string
    readonly createdAt: string
  }[]
  readonly stats: { readonly total: number; readonly positive: number; readonly rating: number | null }
}

/** Reviews of the public links. */
export function Reviews() {
  const { api, store } = useSeller()
  const path = `/api/reviews?username=${encodeURIComponent(store.username)}&limit=50`
  const loaded = useLoad(() => api<ReviewsResponse>('GET', path), [])
  const draw = ({ reviews, stats }: ReviewsResponse) =>
    reviews.length === 0
      ? html`<${Empty} title="No reviews yet">
          <p>The buyer can review each purchase once. Reviews also appear on your store’s page.</p>
        <//>`
      : html`<div class="stack">
          <p><strong>${stats.rating} %</strong> of ${stats.total} ${stats.total === 1 ? 'review is' : 'reviews are'} positive.</p>
          ${reviews.map(
            ({ id, positive, comment, wallet, createdAt }) => html`<${Card} key=${id}>
              <p class="row"><${Badge} tone=${positive ? 'good' : 'bad'}>${positive ? 'Good' : 'Not good'}<//>
                <span class="mono soft">${wallet}</span>
                <span class="soft small"><${Time} atMs=${msOf(createdAt)} nowMs=${Date.now()} /></span></p>
              ${comment && html`<p class="shell-said" dir="auto">${comment}</p>`}
            <//>`,
          )}
          ${stats.total > reviews.length && html`<p class="soft">Only the newest ${reviews.length} are shown.</p>`}
        </div>`
  return html`<div class="stack"><${Title}>Reviews<//><${Load} of=${loaded}>${draw}<//></div>`
}
