import { Badge } from '../../components/badge.ts'
import { Card } from '../../components/card.ts'
import { Empty } from '../../components/empty.ts'
import { Time } from '../../components/time.ts'
import { Load, useLoad } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { msOf } from '../../desk/words.ts'
import { html } from '../../html.ts'
import { useSeller } from '../seller.ts'

interface ReviewsAnswer {
  readonly reviews: readonly {
    readonly id: string
    readonly positive: boolean
    readonly comment: string | null
    readonly wallet: string
    readonly createdAt: string
  }[]
  readonly stats: { readonly total: number; readonly positive: number; readonly rating: number | null }
}

/** What buyers say of the links that everybody sees. */
export function Reviews() {
  const { ask, store } = useSeller()
  const path = `/api/reviews?username=${encodeURIComponent(store.username)}&limit=50`
  const loaded = useLoad(() => ask<ReviewsAnswer>('GET', path), [])
  const draw = ({ reviews, stats }: ReviewsAnswer) =>
    reviews.length === 0
      ? html`<${Empty} title="No reviews yet">
          <p>Whoever has bought can write one, once a purchase. They stand on your store’s page too.</p>
        <//>`
      : html`<div class="stack">
          <p><strong>${stats.rating} %</strong> of ${stats.total} ${stats.total === 1 ? 'review is' : 'reviews are'} good.</p>
          ${reviews.map(
            ({ id, positive, comment, wallet, createdAt }) => html`<${Card} key=${id}>
              <p class="row"><${Badge} tone=${positive ? 'good' : 'bad'}>${positive ? 'Good' : 'Not good'}<//>
                <span class="mono soft">${wallet}</span>
                <span class="soft small"><${Time} atMs=${msOf(createdAt)} nowMs=${Date.now()} /></span></p>
              ${comment && html`<p class="desk-said" dir="auto">${comment}</p>`}
            <//>`,
          )}
          ${stats.total > reviews.length && html`<p class="soft">These are the newest ${reviews.length}.</p>`}
        </div>`
  return html`<div class="stack"><${Title}>Reviews<//><${Load} of=${loaded}>${draw}<//></div>`
}
