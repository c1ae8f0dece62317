import { Badge, Card } from '../../components/card.ts'
import { Address, Amount, NetworkBadge } from '../../components/money.ts'
import { exactTime, Time } from '../../components/time.ts'
import { html } from '../../html.ts'
import { Title } from '../../shell/frame.ts'
import { Load, useLoad } from '../../shell/load.ts'
import { msOf, purchaseWords, stepWords } from '../../shell/words.ts'
import { Refund, type RefundTransfer } from '../refund.ts'
import { useSeller } from '../seller.ts'
import type { PurchaseResponse } from '../types.ts'

interface StepResponse {
  readonly step: string
  readonly at: string
  readonly detail: string
  readonly txHash: string | null
}

interface Whole {
  readonly purchase: PurchaseResponse
  readonly steps: readonly StepResponse[]
  readonly sessionTitle: string | null
  /** Null if nothing is left to refund. */
  readonly refund: RefundTransfer | null
}

/** One purchase, with what was bought, the progress of its payment, and its refund. */
export function Purchase({ id }: { readonly id: string }) {
  const { api } = useSeller()
  const whole = useLoad<Whole>(async () => {
    const [purchase, more] = await Promise.all([
      api<PurchaseResponse>('GET', `/api/v1/purchases/${id}`),
      api<Omit<Whole, 'purchase'>>('GET', `/api/dashboard/purchases/${id}/steps`),
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
    ${purchase.authorizedAmount !== amount && html`<p class="small soft">Charged by use. The buyer had authorized <${Amount} value=${purchase.authorizedAmount} currency=${currency} />.</p>`}
    <div class="shell-two">
      <div class="stack">
        <${Card} title="Details">
          <dl class="facts">
            <dt>Bought</dt><dd>${exactTime(msOf(createdAt))}</dd>
            <dt>Buyer</dt><dd><${Address} value=${buyerWallet} what="buyer’s wallet" /></dd>
            <dt>Network</dt><dd><${NetworkBadge} network=${network} /></dd>
            <dt>Transaction</dt><dd>${txHash === '' ? 'None' : html`<${Address} value=${txHash} what="transaction" href=${explorerUrl ?? undefined} />`}</dd>
            <dt>Fee</dt><dd><${Amount} value=${fee} currency=${currency} /></dd>
            <dt>Link</dt><dd>${linkId === null ? 'None (payment session)' : html`<a href=${`/dashboard/links/${linkId}`}>${linkTitle ?? 'The link that was called'}</a>`}</dd>
            <dt>Purchase</dt><dd class="mono">${purchase.id}</dd>
            ${purchase.status === 'delivered' && html`<dt>Receipt</dt><dd><a href=${`/api/v1/purchases/${purchase.id}/receipt`} download=${`receipt-${purchase.id}.json`}>Download the signed receipt</a></dd>`}
          </dl>
        <//>
        ${refund !== null && html`<${Refund} purchase=${purchase} transfer=${refund} onChanged=${onChanged} />`}
      </div>
      <${Card} title="Timeline">
        <ol class="shell-steps">
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
