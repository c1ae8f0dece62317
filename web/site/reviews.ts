import { useState } from 'preact/hooks'
import { Button, Icon } from '../components/button.ts'
import { Empty } from '../components/card.ts'
import { Field } from '../components/field.ts'
import { Time } from '../components/time.ts'
import { html } from '../html.ts'
import { createApiClient } from '../shell/api.ts'
import { type FormWords, refuse, useForm } from '../shell/form.ts'
import { useAction } from '../shell/load.ts'

/** The data with which the buyer can review a purchase. */
interface Reviewable {
  readonly purchaseId: string
  /** Token from the paid response. */
  readonly token: string
  readonly wallet: string
}

interface ReviewFormProps {
  readonly of: Reviewable
  readonly onPosted?: () => void
}

const verdicts = [
  { positive: true, title: 'Good', icon: 'thumbUp' },
  { positive: false, title: 'Bad', icon: 'thumbDown' },
] as const

const blank: { readonly positive: boolean | undefined; readonly comment: string } = {
  positive: undefined,
  comment: '',
}

const words: FormWords = { positive: {}, comment: {} }

/** The review form, for a buyer who has just paid. Each purchase can be reviewed once. */
export function ReviewForm({ of, onPosted }: ReviewFormProps) {
  const [isPosted, setPosted] = useState(false)
  const action = useAction()
  const form = useForm(blank, action, words)
  const { positive } = form.fields
  const post = form.submit(async ({ positive, comment }) => {
    if (positive === undefined) throw refuse({ positive: 'Choose Good or Bad.' })
    await createApiClient()('POST', '/api/reviews', { ...of, positive, comment })
    setPosted(true)
    onPosted?.()
  })
  const wrong = positive === undefined ? form.errorAt('positive') : undefined
  if (isPosted)
    return html`<p class="review-form" role="status">Thank you. Other buyers can read your review now.</p>`
  return html`<form class="stack review-form" ref=${form.ref} onSubmit=${post} novalidate>
    <fieldset class="choices" data-invalid=${wrong && 'true'} aria-describedby=${wrong && 'verdict-error'}>
      <legend>How was it?</legend>
      ${verdicts.map(
        (one) => html`<label>
          <input type="radio" name="verdict" checked=${positive === one.positive} onChange=${() => form.set({ positive: one.positive })} />
          <${Icon} name=${one.icon} /><span>${one.title}</span>
        </label>`,
      )}
    </fieldset>
    ${wrong && html`<p class="wrong" id="verdict-error" role="alert">${wrong}</p>`}
    <${Field} ...${form.at('comment')} label="What should other buyers know? (optional)" rows=${2} maxlength="500" />
    ${form.line}
    <div class="row"><${Button} type="submit" isBusy=${action.isBusy}>Post review<//></div>
  </form>`
}

export interface ReviewListProps {
  readonly total: number
  /** Percentage of positive reviews. */
  readonly rating: number | null
  readonly reviews: readonly {
    readonly isPositive: boolean
    readonly comment: string | null
    /** The shortened address. */
    readonly wallet: string
    readonly createdAtMs: number
    /** The reviewed link, set in a list with reviews of several links. */
    readonly of?: { readonly title: string; readonly href: string } | undefined
  }[]
  readonly nowMs: number
}

/** Buyers' reviews. */
export const ReviewList = ({ total, rating, reviews, nowMs }: ReviewListProps) =>
  html`<section class="stack" aria-labelledby="reviews">
    <div class="row apart">
      <h2 id="reviews">Reviews</h2>
      ${rating !== null && html`<span class="soft small">${rating}% positive of ${total}</span>`}
    </div>
    ${
      reviews.length === 0
        ? html`<${Empty} title="No reviews yet"><p>Buyers can review a purchase for 90 days.</p><//>`
        : html`<ul class="reviews">
          ${reviews.map(
            ({ isPositive, comment, wallet, createdAtMs, of }) => html`<li class="review">
              <span class="verdict" data-tone=${isPositive ? 'good' : 'bad'}><${Icon} name=${isPositive ? 'thumbUp' : 'thumbDown'} /><span class="visually-hidden">${isPositive ? 'Good' : 'Bad'}</span></span>
              <div>
                <p dir="auto">${comment ?? html`<span class="soft">No comment.</span>`}</p>
                <p class="small soft">${of && html`<a class="quiet-link" href=${of.href}><bdi>${of.title}</bdi></a> · `}<span class="mono">${wallet}</span> · <${Time} atMs=${createdAtMs} nowMs=${nowMs} /></p>
              </div>
            </li>`,
          )}
        </ul>`
    }
  </section>`
