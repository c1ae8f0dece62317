import { explorerUrl } from '../../core/domain/network.ts'
import { Address } from '../components/address.ts'
import { Amount } from '../components/amount.ts'
import { Button } from '../components/button.ts'
import { Icon } from '../components/icon.ts'
import { type Children, html } from '../html.ts'
import { ReviewForm } from '../site/reviewForm.ts'
import type { ViewProps } from './actions.ts'
import type { CheckoutSession, CheckoutState } from './state.ts'
import { titleOf } from './waysToPay.ts'

/** The receipt. */
export function Paid({
  state,
  sum,
  offers,
  actions,
  isElsewhere,
}: ViewProps & { readonly isElsewhere: boolean }) {
  const { session, isPopup } = state
  const offer = offers.find(({ network }) => network.startsWith('solana:') === (session.chain === 'solana'))
  const { txHash, buyerWallet } = session
  return html`<div class="checkout-end" role="status">
    <span class="checkout-done"><${Icon} name="check" /></span>
    <h2 tabindex="-1">${isElsewhere ? 'Paid in another window' : 'Paid'}</h2>
    ${isElsewhere && html`<p class="soft">This session was paid from somewhere else. Nothing more is to be paid here.</p>`}
    <dl class="facts">
      <dt>Amount</dt><dd><${Amount} ...${sum} /></dd>
      ${offer && html`<dt>Network</dt><dd>${titleOf(offer)}</dd>`}
      ${txHash && html`<dt>Transaction</dt><dd><${Address} value=${txHash} what="the transaction" href=${offer && explorerUrl(offer.network, txHash)} /></dd>`}
      ${buyerWallet && html`<dt>From</dt><dd><${Address} value=${buyerWallet} /></dd>`}
      ${session.purchaseId && html`<dt>Purchase</dt><dd class="small"><code>${session.purchaseId}</code></dd>`}
    </dl>
    ${session.link?.url && html`<div class="checkout-actions"><${Button} kind="primary" href=${session.link.url} rel="noreferrer">Open what you bought<//></div>`}
    <${Review} ...${state} onReviewed=${actions.forgetReview} />
    ${(session.successUrl !== null || isPopup || !session.link?.url) && html`<${WayBack} session=${session} isPopup=${isPopup} closeWindow=${actions.closeWindow} url=${session.successUrl} />`}
  </div>`
}

/** For the tab that paid for a link; a payment of any amount is not reviewed. */
function Review({
  session: { link, purchaseId, buyerWallet },
  reviewToken,
  onReviewed,
}: CheckoutState & { onReviewed(): void }) {
  if (reviewToken === null || link === null || purchaseId === null || buyerWallet === null) return null
  return html`<${ReviewForm} of=${{ purchaseId, token: reviewToken, wallet: buyerWallet }} onPosted=${onReviewed} />`
}

export const Expired = (props: ViewProps) =>
  html`<${Ending} ...${props} title="The time is over">
    A payment has to begin within half an hour. ${charged(props)} Go back to the shop to start again.
  <//>`

export const Canceled = (props: ViewProps) =>
  html`<${Ending} ...${props} title="Canceled">This payment was canceled. ${charged(props)}<//>`

export const Failed = (props: ViewProps) =>
  html`<${Ending} ...${props} title="The payment failed">
    It could not be settled and is closed now. ${charged(props)} Go back to the shop to start again.
  <//>`

/** What was sent may land when the session is over: then it is the buyer's again, or a store has paid fees with it after all. */
function charged({ state: { sentBy, session } }: ViewProps): string {
  if (sentBy === null) return 'Nothing was charged.'
  const isInvoice = session.merchant.username === ''
  return `Your payment was sent; should it arrive after all, ${isInvoice ? 'what you owe is less by it' : 'the seller owes it back to you'}.`
}

function Ending({ state, actions, title, children }: ViewProps & { title: string; children: Children }) {
  const { session, isPopup } = state
  return html`<div class="checkout-end" role="status">
    <h2 tabindex="-1">${title}</h2>
    <p class="soft">${children}</p>
    <${WayBack} session=${session} isPopup=${isPopup} closeWindow=${actions.closeWindow} url=${session.cancelUrl} />
  </div>`
}

interface WayBackProps {
  readonly session: CheckoutSession
  readonly isPopup: boolean
  readonly url: string | null
  closeWindow(): void
}

/** To the shop: in a popup by closing it, else to where the shop wants its buyers. */
function WayBack({ session, isPopup, url, closeWindow }: WayBackProps) {
  const name = session.merchant.displayName || session.merchant.username
  if (isPopup)
    return html`<div class="checkout-actions"><${Button} kind="primary" onClick=${closeWindow}>Close this window<//></div>`
  if (url === null) return html`<p class="small soft">You can close this page.</p>`
  return html`<div class="checkout-actions"><${Button} kind="primary" href=${url} rel="noreferrer"><span>Back to <bdi>${name}</bdi></span><//></div>`
}
