import { Address } from '../components/address.ts'
import { Button } from '../components/button.ts'
import { html } from '../html.ts'
import type { ViewProps } from './actions.ts'
import { chosenOffer, type Fault, wasCharged } from './state.ts'
import { titleOf } from './waysToPay.ts'

const titles: Readonly<Record<Fault['kind'], string>> = {
  declined: 'You declined in your wallet',
  wrong_network: 'Your wallet is on another network',
  too_little: 'Not enough in this wallet',
  unfit: "This wallet can't pay here",
  failed: 'That did not work',
  refused: 'The payment was refused',
  owed: 'The seller owes this back to you',
  refunded: 'The seller has paid this back to you',
}

/** Something stopped: what, and what to do now. */
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
        ? 'Keep this text for the seller. Do not pay again here.'
        : kind === 'refunded'
          ? 'Look in the wallet that paid. Nothing is to be paid here any more.'
          : kind === 'too_little'
            ? html`Put ${offer.asset.symbol} on ${titleOf(offer)} into it, or pay from another wallet or on another network. Nothing was charged.`
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
