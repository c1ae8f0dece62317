import { Empty } from '../components/empty.ts'
import { Icon } from '../components/icon.ts'
import { Time } from '../components/time.ts'
import { html } from '../html.ts'

export interface ReviewListProps {
  readonly total: number
  /** Percentage of positive ones. */
  readonly rating: number | null
  /** The newest. */
  readonly reviews: readonly {
    readonly isPositive: boolean
    readonly comment: string | null
    /** Shortened. */
    readonly wallet: string
    readonly createdAtMs: number
    /** In a list of several links' reviews: which it is of. */
    readonly of?: { readonly title: string; readonly href: string } | undefined
  }[]
  readonly nowMs: number
}

/** What buyers said: only they can. */
export const ReviewList = ({ total, rating, reviews, nowMs }: ReviewListProps) =>
  html`<section class="stack" aria-labelledby="reviews">
    <div class="row apart">
      <h2 id="reviews">Reviews</h2>
      ${rating !== null && html`<span class="soft small">${rating}% positive of ${total}</span>`}
    </div>
    ${
      reviews.length === 0
        ? html`<${Empty} title="No reviews yet"><p>Buyers can review what they bought, for 90 days.</p><//>`
        : html`<ul class="reviews">
          ${reviews.map(
            ({ isPositive, comment, wallet, createdAtMs, of }) => html`<li class="review">
              <span class="verdict" data-tone=${isPositive ? 'good' : 'bad'}><${Icon} name=${isPositive ? 'thumbUp' : 'thumbDown'} /><span class="visually-hidden">${isPositive ? 'Good' : 'Bad'}</span></span>
              <div>
                <p dir="auto">${comment ?? html`<span class="soft">Without a word.</span>`}</p>
                <p class="small soft">${of && html`<a class="quiet-link" href=${of.href}><bdi>${of.title}</bdi></a> · `}<span class="mono">${wallet}</span> · <${Time} atMs=${createdAtMs} nowMs=${nowMs} /></p>
              </div>
            </li>`,
          )}
        </ul>`
    }
  </section>`
