import { useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Field } from '../components/field.ts'
import { Icon } from '../components/icon.ts'
import { createApiClient } from '../desk/api.ts'
import { Fault, useAction } from '../desk/load.ts'
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

/** For a buyer who has just paid: one review a purchase. */
export function ReviewForm({ of, onPosted }: ReviewFormProps) {
  const [positive, setPositive] = useState<boolean>()
  const [comment, setComment] = useState('')
  const [isMissing, setMissing] = useState(false)
  const [isPosted, setPosted] = useState(false)
  const action = useAction()
  const post = (event: Event) => {
    event.preventDefault()
    setMissing(positive === undefined)
    if (positive === undefined) return
    void action.run(async () => {
      await createApiClient()('POST', '/api/reviews', { ...of, positive, comment })
      setPosted(true)
      onPosted?.()
    })
  }
  if (isPosted)
    return html`<p class="review-form" role="status">Thank you. Other buyers can read your review now.</p>`
  return html`<form class="stack review-form" onSubmit=${post} novalidate>
    <fieldset class="choices" aria-describedby=${isMissing ? 'verdict-error' : undefined}>
      <legend>How was it?</legend>
      ${verdicts.map(
        (one) => html`<label>
          <input type="radio" name="verdict" checked=${positive === one.positive} onChange=${() => setPositive(one.positive)} />
          <${Icon} name=${one.icon} /><span>${one.title}</span>
        </label>`,
      )}
    </fieldset>
    ${isMissing && positive === undefined && html`<p class="wrong" id="verdict-error" role="alert">Choose Good or Bad.</p>`}
    <${Field} id="comment" label="What should other buyers know? (optional)" rows=${2} maxlength="500" value=${comment} onInput=${setComment} />
    <${Fault} of=${action} />
    <div class="row"><${Button} type="submit" isBusy=${action.isBusy}>Post the review<//></div>
  </form>`
}
