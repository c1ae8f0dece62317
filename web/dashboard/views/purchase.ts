import { useState } from 'preact/hooks'
import { Address } from '../../components/address.ts'
import { Amount } from '../../components/amount.ts'
import { Badge } from '../../components/badge.ts'
import { Button } from '../../components/button.ts'
import { Card } from '../../components/card.ts'
import { Field } from '../../components/field.ts'
import { NetworkBadge } from '../../components/networkBadge.ts'
import { exactTime, Time } from '../../components/time.ts'
import { showToast } from '../../components/toast.ts'
import { Fault, Load, useAction, useLoad } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { msOf, purchaseWords, stepWords } from '../../desk/words.ts'
import { html } from '../../html.ts'
import { useSeller } from '../seller.ts'
import type { PurchaseAnswer } from '../types.ts'

interface StepAnswer {
  readonly step: string
  readonly at: string
  readonly detail: string
  readonly txHash: string | null
}

interface Whole {
  readonly purchase: PurchaseAnswer
  readonly steps: readonly StepAnswer[]
}

/** States in which a seller may still send the money back. */
const refundable: readonly string[] = ['settled', 'delivered', 'refund_due']

/** One purchase: what was paid, how the payment went, and how to pay it back. */
export function Purchase({ id }: { readonly id: string }) {
  const { ask } = useSeller()
  const whole = useLoad<Whole>(async () => {
    const [purchase, { steps }] = await Promise.all([
      ask<PurchaseAnswer>('GET', `/api/v1/purchases/${id}`),
      ask<{ steps: readonly StepAnswer[] }>('GET', `/api/dashboard/purchases/${id}/steps`),
    ])
    return { purchase, steps }
  }, [id])
  return html`<${Load} of=${whole}>${(data: Whole) => html`<${PurchaseView} ...${data} onChanged=${whole.reload} />`}<//>`
}

function PurchaseView({ purchase, steps, onChanged }: Whole & { readonly onChanged: () => void }) {
  const { words, tone } = purchaseWords(purchase.status)
  const { amount, fee, currency, network, buyerWallet, linkId, explorerUrl, txHash, createdAt } = purchase
  return html`<div class="stack">
    <${Title} from=${{ href: '/dashboard/purchases', title: 'Purchases' }} actions=${html`<${Badge} tone=${tone}>${words}<//>`}>
      <${Amount} value=${amount} currency=${currency} isBig=${true} />
    <//>
    <div class="desk-two">
      <div class="stack">
        <${Card} title="Facts">
          <dl class="facts">
            <dt>Bought</dt><dd>${exactTime(msOf(createdAt))}</dd>
            <dt>Buyer</dt><dd><${Address} value=${buyerWallet} what="buyer’s wallet" /></dd>
            <dt>Network</dt><dd><${NetworkBadge} network=${network} /></dd>
            <dt>Transaction</dt><dd>${txHash === '' ? 'None of its own' : html`<${Address} value=${txHash} what="transaction" href=${explorerUrl ?? undefined} />`}</dd>
            <dt>Fee</dt><dd><${Amount} value=${fee} currency=${currency} /></dd>
            <dt>Link</dt><dd>${linkId === null ? 'None: a payment session' : html`<a href=${`/dashboard/links/${linkId}`}>The link that was called</a>`}</dd>
            <dt>Purchase</dt><dd class="mono">${purchase.id}</dd>
          </dl>
        <//>
        ${refundable.includes(purchase.status) && html`<${Refund} purchase=${purchase} onChanged=${onChanged} />`}
      </div>
      <${Card} title="How the payment went">
        <ol class="desk-steps">
          ${steps.map(({ step, at, detail, txHash }) => {
            const { words, tone } = stepWords(step)
            return html`<li data-tone=${tone}>
              <strong>${words}</strong> <span class="soft small"><${Time} atMs=${msOf(at)} nowMs=${Date.now()} /></span>
              <p dir="auto">${detail}</p>
              ${txHash && html`<p><${Address} value=${txHash} what="transaction" canCopy=${false} /></p>`}
            </li>`
          })}
        </ol>
      <//>
    </div>
  </div>`
}

function Refund({
  purchase,
  onChanged,
}: {
  readonly purchase: PurchaseAnswer
  readonly onChanged: () => void
}) {
  const { ask } = useSeller()
  const [txHash, setTxHash] = useState('')
  const action = useAction()
  const send = (event: Event) => {
    event.preventDefault()
    void action.run(async () => {
      await ask('POST', `/api/v1/purchases/${purchase.id}/refunds`, { txHash: txHash.trim() })
      showToast({ text: 'The refund is booked' })
      onChanged()
    })
  }
  const { amount, currency, buyerWallet, status } = purchase
  return html`<${Card} title=${status === 'refund_due' ? 'Pay it back' : 'Refund'}>
    <form class="stack" onSubmit=${send}>
      <ol class="desk-numbered">
        <li>Send <${Amount} value=${amount} currency=${currency} /> from the wallet that was paid to <${Address} value=${buyerWallet} what="buyer’s wallet" /></li>
        <li>Name the transaction. It is looked up on chain before anything is booked.</li>
      </ol>
      <${Field} id="tx" label="Transaction" value=${txHash} onInput=${setTxHash} error=${action.fault?.details['txHash']} autocomplete="off" spellcheck=${false} required />
      ${action.fault?.details['txHash'] === undefined && html`<${Fault} of=${action} />`}
      <div class="row"><${Button} type="submit" kind=${status === 'refund_due' ? 'primary' : 'plain'} isBusy=${action.isBusy}>Check and book the refund<//></div>
    </form>
  <//>`
}
