import { explorerUrl } from '../../core/domain/network.ts'
import { Button, Icon } from '../components/button.ts'
import { Address, Amount } from '../components/money.ts'
import { type Children, html } from '../html.ts'
import { ReviewForm } from '../site/reviews.ts'
import type { ViewProps } from './actions.ts'
import { titleOf } from './paymentMethods.ts'
import { type CheckoutSession, type CheckoutState, chosenOffer, type Fault, wasCharged } from './state.ts'

const titles: Readonly<Record<Fault['kind'], string>> = {
  declined: 'You declined in your wallet',
  wrong_network: 'Your wallet is on another network',
  too_little: 'Not enough in this wallet',
  unfit: "This wallet can't pay here",
  failed: 'The payment did not go through',
  refused: 'The payment was refused',
  owed: 'The seller owes you a refund',
  refunded: 'The seller has refunded you',
}

/** The screen of a payment that stopped. It shows what happened and what to do now. */
export function Stopped({ state, offers, actions }: ViewProps) {
  if (state.phase.at !== 'stopped') return null
  const { fault } = state.phase
  const { kind, message, requestId } = fault
  const offer = chosenOffer(state, offers)!
  return html`<div class="checkout-end" role="alert">
    <h2 tabindex="-1">${titles[kind]}</h2>
    <p>${message}</p>
    <p class="soft">${
      kind === 'owed'
        ? 'Keep this text and show it to the seller. Do not pay again here.'
        : kind === 'refunded'
          ? 'Check the wallet that paid. There is nothing left to pay here.'
          : kind === 'too_little'
            ? html`Add ${offer.asset.symbol} on ${titleOf(offer)} to this wallet, or pay from another wallet or on another network. Nothing was charged.`
            : 'Nothing was charged.'
    }</p>
    ${kind === 'too_little' && html`<p class="small soft">Only ${offer.asset.symbol} of this token counts: <${Address} value=${offer.asset.address} what="the token's address" /></p>`}
    ${requestId !== undefined && html`<p class="small soft">Request <code>${requestId}</code></p>`}
    <div class="checkout-actions">
      ${!wasCharged(fault) && html`<${Button} kind="primary" onClick=${actions.retry}>${kind === 'too_little' ? 'Choose again' : 'Try again'}<//>`}
      ${!wasCharged(fault) && html`<${Button} kind="quiet" isBusy=${state.isCanceling} onClick=${actions.cancel}>Cancel payment<//>`}
    </div>
  </div>`
}

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
    ${isElsewhere && html`<p class="soft">This payment was made in another window or on another device. There is nothing left to pay here.</p>`}
    <dl class="facts">
      <dt>Amount</dt><dd><${Amount} ...${sum} /></dd>
      ${offer && html`<dt>Network</dt><dd>${titleOf(offer)}</dd>`}
      ${txHash && html`<dt>Transaction</dt><dd><${Address} value=${txHash} what="the transaction" href=${offer && explorerUrl(offer.network, txHash)} /></dd>`}
      ${buyerWallet && html`<dt>From</dt><dd><${Address} value=${buyerWallet} /></dd>`}
      ${session.purchaseId && html`<dt>Purchase</dt><dd class="small"><code>${session.purchaseId}</code></dd>`}
    </dl>
    ${session.link?.url && html`<div class="checkout-actions"><${Button} kind="primary" href=${session.link.url} rel="noreferrer">Open what you bought<//></div>`}
    <${Review} ...${state} onReviewed=${actions.forgetReview} />
    ${(session.successUrl !== null || isPopup || !session.link?.url) && html`<${ReturnLink} session=${session} isPopup=${isPopup} closeWindow=${actions.closeWindow} url=${session.successUrl} />`}
  </div>`
}

/** The review form, for the tab that paid for a link. A payment that is not for a link cannot be reviewed. */
function Review({
  session: { link, purchaseId, buyerWallet },
  reviewToken,
  onReviewed,
}: CheckoutState & { onReviewed(): void }) {
  if (reviewToken === null || link === null || purchaseId === null || buyerWallet === null) return null
  return html`<${ReviewForm} of=${{ purchaseId, token: reviewToken, wallet: buyerWallet }} onPosted=${onReviewed} />`
}

export const Expired = (props: ViewProps) =>
  html`<${Ending} ...${props} title="This checkout has expired">
    The checkout was open for 30 minutes. ${charged(props)} Go back to the shop to start again.
  <//>`

export const Canceled = (props: ViewProps) =>
  html`<${Ending} ...${props} title="Canceled">This payment was canceled. ${charged(props)}<//>`

export const Failed = (props: ViewProps) =>
  html`<${Ending} ...${props} title="The payment failed">
    The payment could not be settled, and this checkout is closed. ${charged(props)} Go back to the shop to start again.
  <//>`

/**
 * What happens to a payment that was sent before the session ended, and may still settle. The seller then owes a refund, or the
 * amount is credited to the store's fees.
 */
function charged({ state: { sentBy, session } }: ViewProps): string {
  if (sentBy === null) return 'Nothing was charged.'
  const isInvoice = session.merchant.username === ''
  return `Your payment was sent. If the payment still arrives, ${isInvoice ? 'it reduces what you owe' : 'the seller owes it back to you'}.`
}

function Ending({ state, actions, title, children }: ViewProps & { title: string; children: Children }) {
  const { session, isPopup } = state
  return html`<div class="checkout-end" role="status">
    <h2 tabindex="-1">${title}</h2>
    <p class="soft">${children}</p>
    <${ReturnLink} session=${session} isPopup=${isPopup} closeWindow=${actions.closeWindow} url=${session.cancelUrl} />
  </div>`
}

interface ReturnLinkProps {
  readonly session: CheckoutSession
  readonly isPopup: boolean
  readonly url: string | null
  closeWindow(): void
}

/** Returns to the shop, by a link to its URL. A popup is closed instead. */
function ReturnLink({ session, isPopup, url, closeWindow }: ReturnLinkProps) {
  const name = session.merchant.displayName || session.merchant.username
  if (isPopup)
    return html`<div class="checkout-actions"><${Button} kind="primary" onClick=${closeWindow}>Close this window<//></div>`
  if (url === null) return html`<p class="small soft">You can close this page.</p>`
  return html`<div class="checkout-actions"><${Button} kind="primary" href=${url} rel="noreferrer"><span>Back to <bdi>${name}</bdi></span><//></div>`
}
