import { useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Card } from '../../components/card.ts'
import { Field } from '../../components/field.ts'
import { Amount } from '../../components/money.ts'
import { Code } from '../../components/tabs.ts'
import { exactTime } from '../../components/time.ts'
import { html } from '../../html.ts'
import { addressWords, type FormWords, useForm } from '../../shell/form.ts'
import { Title } from '../../shell/frame.ts'
import { useAction } from '../../shell/load.ts'
import { msOf } from '../../shell/words.ts'
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
  // The API reports a missing payout wallet as an error of the field `price`.
  price: { no_payout_wallet: 'You have no payout wallet. Add one in your profile first.' },
  title: { expected: 'Enter a title that names what the buyer pays for.' },
  description: {},
  successUrl: addressWords(
    'Enter a full address, such as https://shop.example.com/thanks, or leave it empty.',
  ),
}

/** Creates a payment link, which is a checkout for one payment. It is for sellers without a program of their own. */
export function NewSession() {
  const { api } = useSeller()
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
    setCreated(await api<CreatedSession>('POST', '/api/v1/payments', body))
  })
  if (created !== undefined)
    return html`<${Made} session=${created} onAnother=${() => setCreated(undefined)} />`
  const amount = form.at('amount')
  return html`<div class="stack">
    <${Title} from=${from}>New payment link<//>
    <${Card}>
      <form class="stack shell-form" ref=${form.ref} onSubmit=${create} novalidate>
        <p class="soft">A payment link is for one payment by one buyer within 30 minutes. To sell something many times, create a <a href="/dashboard/links/new">link</a> instead.</p>
        <${Field} ...${amount} label="Amount, USDC" inputmode="decimal" error=${amount.error ?? form.errorAt('price')} required />
        <${Field} ...${form.at('title')} label="Title" hint="Name what the buyer pays for in a few words." maxlength="200" required />
        <${Field} ...${form.at('description')} label="Description" rows=${2} maxlength="500" hint="Optional." />
        <${Field} ...${form.at('successUrl')} label="Return address" type="url" inputmode="url" placeholder="https://shop.example.com/thanks" hint="The gateway sends the buyer to this address after the payment. If you leave this field empty, the receipt stays on screen." />
        ${form.line}
        <div class="row"><${Button} kind="primary" type="submit" isBusy=${action.isBusy}>Create payment link<//>
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
        <p>Send this address to your buyer now, because it is shown only once. The buyer can pay until ${exactTime(msOf(expiresAt))}.</p>
        <${Code} title="payment link" code=${checkoutUrl} />
        <p><a href=${checkoutUrl} target="_blank" rel="noreferrer">See what your buyer sees</a></p>
      </div>
    <//>
    <div class="row"><${Button} kind="primary" href="/dashboard/sessions">All payment sessions<//>
      <${Button} kind="quiet" onClick=${onAnother}>Create another<//></div>
  </div>`
}
