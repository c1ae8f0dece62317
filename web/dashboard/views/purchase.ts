import { Address } from '../../components/address.ts'
import { Amount } from '../../components/amount.ts'
import { Badge } from '../../components/badge.ts'
import { Card } from '../../components/card.ts'
import { NetworkBadge } from '../../components/networkBadge.ts'
import { exactTime, Time } from '../../components/time.ts'
import { Load, useLoad } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { msOf, purchaseWords, stepWords } from '../../desk/words.ts'
import { html } from '../../html.ts'
import { Refund, type RefundTransfer } from '../refund.ts'
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
  readonly sessionTitle: string | null
  /** None where nothing is left to refund. */
  readonly refund: RefundTransfer | null
}

/** One purchase: what was bought and paid, how the payment went, and how to pay it back. */
export function Purchase({ id }: { readonly id: string }) {
  const { ask } = useSeller()
  const whole = useLoad<Whole>(async () => {
    const [purchase, more] = await Promise.all([
      ask<PurchaseAnswer>('GET', `/api/v1/purchases/${id}`),
      ask<Omit<Whole, 'purchase'>>('GET', `/api/dashboard/purchases/${id}/steps`),
    ])
    return { purchase, ...more }
  }, [id])
  return html`<${Load} of=${whole}>${(data: Whole) => html`<${PurchaseView} ...${data} onChanged=${whole.reload} />`}<//>`
}

function PurchaseView({
  purchase,
  steps,
  sessionTitle,
  refund,
  onChanged,
}: Whole & { readonly onChanged: () => void }) {
  const { words, tone } = purchaseWords(purchase.status)
  const { amount, fee, currency, network, buyerWallet, linkId, linkTitle, explorerUrl, txHash, createdAt } =
    purchase
  return html`<div class="stack">
    <${Title} from=${{ href: '/dashboard/purchases', title: 'Purchases' }} actions=${html`<${Badge} tone=${tone}>${words}<//>`}>
      <span dir="auto">${sessionTitle ?? linkTitle ?? 'A payment'}</span>
    <//>
    <p><${Amount} value=${amount} currency=${currency} isBig=${true} /></p>
    <div class="desk-two">
      <div class="stack">
        <${Card} title="Facts">
          <dl class="facts">
            <dt>Bought</dt><dd>${exactTime(msOf(createdAt))}</dd>
            <dt>Buyer</dt><dd><${Address} value=${buyerWallet} what="buyer’s wallet" /></dd>
            <dt>Network</dt><dd><${NetworkBadge} network=${network} /></dd>
            <dt>Transaction</dt><dd>${txHash === '' ? 'None of its own' : html`<${Address} value=${txHash} what="transaction" href=${explorerUrl ?? undefined} />`}</dd>
            <dt>Fee</dt><dd><${Amount} value=${fee} currency=${currency} /></dd>
            <dt>Link</dt><dd>${linkId === null ? 'None: a payment session' : html`<a href=${`/dashboard/links/${linkId}`}>${linkTitle ?? 'The link that was called'}</a>`}</dd>
            <dt>Purchase</dt><dd class="mono">${purchase.id}</dd>
          </dl>
        <//>
        ${refund !== null && html`<${Refund} purchase=${purchase} transfer=${refund} onChanged=${onChanged} />`}
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
