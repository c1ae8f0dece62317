import { useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Field } from '../components/field.ts'
import { Icon } from '../components/icon.ts'
import { createApiClient } from '../desk/api.ts'
import { type FormWords, refuse, useForm } from '../desk/form.ts'
import { useAction } from '../desk/load.ts'
import { html } from '../html.ts'

/** What the gateway gave the buyer of a purchase to review it with. */
export interface Reviewable {
  readonly purchaseId: string
  /** Of the paid answer. */
  readonly token: string
  /** The wallet that paid. */
  readonly wallet: string
}

export interface ReviewFormProps {
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

/** For a buyer who has just paid: one review a purchase. */
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
    <div class="row"><${Button} type="submit" isBusy=${action.isBusy}>Post the review<//></div>
  </form>`
}
