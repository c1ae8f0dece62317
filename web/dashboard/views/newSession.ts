import { useState } from 'preact/hooks'
import { Amount } from '../../components/amount.ts'
import { Button } from '../../components/button.ts'
import { Card } from '../../components/card.ts'
import { Code } from '../../components/codeBlock.ts'
import { Field } from '../../components/field.ts'
import { exactTime } from '../../components/time.ts'
import { addressWords, type FormWords, useForm } from '../../desk/form.ts'
import { useAction } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { msOf } from '../../desk/words.ts'
import { html } from '../../html.ts'
import { useSeller } from '../seller.ts'

interface CreatedSession {
  readonly amount: string
  readonly currency: string
  readonly checkoutUrl: string
  readonly expiresAt: string
  readonly item: { readonly title: string }
}

const blank = { amount: '', title: '', description: '', successUrl: '' }

const words: FormWords = {
  amount: { expected: 'Enter an amount in USDC, such as 49.99.' },
  // The API says of the price that nobody could be paid.
  price: { no_payout_wallet: 'You have no wallet that buyers could pay. Name one in your profile first.' },
  title: { expected: 'Enter a title: what the buyer pays for.' },
  description: {},
  successUrl: addressWords('Enter a whole address, such as https://shop.example.com/thanks, or none.'),
}

/** A payment link: a checkout for one payment, made by a seller who has no program. */
export function NewSession() {
  const { ask } = useSeller()
  const [created, setCreated] = useState<CreatedSession>()
  const action = useAction()
  const form = useForm(blank, action, words)
  const create = form.submit(async ({ amount, title, description, successUrl }) => {
    const body = {
      amount: amount.trim(),
      title: title.trim(),
      description: description.trim() || null,
      successUrl: successUrl.trim() || null,
    }
    setCreated(await ask<CreatedSession>('POST', '/api/v1/payments', body))
  })
  if (created !== undefined)
    return html`<${Made} session=${created} onAnother=${() => setCreated(undefined)} />`
  const amount = form.at('amount')
  return html`<div class="stack">
    <${Title} from=${from}>New payment link<//>
    <${Card}>
      <form class="stack desk-form" ref=${form.ref} onSubmit=${create} novalidate>
        <p class="soft">For one payment by one buyer, within 30 minutes. What many buyers pay for is a <a href="/dashboard/links/new">link</a>, which stays.</p>
        <${Field} ...${amount} label="Amount, USDC" inputmode="decimal" error=${amount.error ?? form.errorAt('price')} required />
        <${Field} ...${form.at('title')} label="Title" hint="What the buyer pays for, in a few words." maxlength="200" required />
        <${Field} ...${form.at('description')} label="Description" rows=${2} maxlength="500" hint="Optional." />
        <${Field} ...${form.at('successUrl')} label="Address after paying" type="url" inputmode="url" placeholder="https://shop.example.com/thanks" hint="Where the buyer is led then. Without one the receipt stays." />
        ${form.line}
        <div class="row"><${Button} kind="primary" type="submit" isBusy=${action.isBusy}>Make the payment link<//>
          <${Button} kind="quiet" href="/dashboard/sessions">Cancel<//></div>
      </form>
    <//>
  </div>`
}

const from = { href: '/dashboard/sessions', title: 'Payment sessions' }

function Made({
  session: { amount, currency, checkoutUrl, expiresAt, item },
  onAnother,
}: {
  readonly session: CreatedSession
  readonly onAnother: () => void
}) {
  return html`<div class="stack">
    <${Title} from=${from}>Your payment link is ready<//>
    <${Card} title=${html`<span dir="auto">${item.title}</span>`} actions=${html`<${Amount} value=${amount} currency=${currency} />`}>
      <div class="stack">
        <p>Send this address to your buyer now: it is shown only here, and can be paid until ${exactTime(msOf(expiresAt))}.</p>
        <${Code} title="payment link" code=${checkoutUrl} />
        <p><a href=${checkoutUrl} target="_blank" rel="noreferrer">See what your buyer sees</a></p>
      </div>
    <//>
    <div class="row"><${Button} kind="primary" href="/dashboard/sessions">All payment sessions<//>
      <${Button} kind="quiet" onClick=${onAnother}>Make another one<//></div>
  </div>`
}
