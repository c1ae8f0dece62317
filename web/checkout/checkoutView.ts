import { Amount } from '../components/amount.ts'
import { Countdown } from '../components/countdown.ts'
import { Notice } from '../components/notice.ts'
import { html } from '../html.ts'
import { island } from '../island/island.ts'
import { noActions, type ViewProps } from './actions.ts'
import { Canceled, Expired, Failed, Paid } from './endings.ts'
import { Progress } from './progress.ts'
import { type CheckoutProps, type CheckoutState, firstState, type Phase, screenOf } from './state.ts'
import { Stopped } from './stopped.ts'
import { WaysToPay } from './waysToPay.ts'

/** The checkout as it stands: what is paid, to whom, and what is to be done now. */
export function CheckoutView(props: ViewProps) {
  const { state, sum, offers, nowMs, lifetimeMs } = props
  const { session } = state
  const { item, merchant } = session
  const name = merchant.displayName || merchant.username
  const screen = screenOf(state, offers)
  const leftMs = Math.max(0, Date.parse(session.expiresAt) - nowMs)
  return html`<div class="checkout" data-screen=${screen}>
    <section class="checkout-what" aria-label="What you pay">
      <p class="checkout-seller"><span class="soft">Pay </span><bdi>${name}</bdi>${merchant.username !== '' && name !== merchant.username && html`<span class="soft"> @${merchant.username}</span>`}</p>
      <h1 dir="auto">${item.title}</h1>
      <p class="checkout-sum"><${Amount} ...${sum} isBig=${true} /></p>
      ${item.description && html`<p class="soft checkout-about" dir="auto">${item.description}</p>`}
      ${screen === 'pay' && html`<p class="soft small checkout-time"><${Countdown} totalMs=${lifetimeMs} leftMs=${leftMs} /></p>`}
    </section>
    <section class="card checkout-do" aria-label="Payment">
      <div class="checkout-screen" key=${screen}>${partOf(screen, props)}</div>
    </section>
  </div>`
}

function partOf(screen: ReturnType<typeof screenOf>, props: ViewProps) {
  switch (screen) {
    case 'pay':
      return html`<${WaysToPay} ...${props} />`
    case 'progress':
      return html`<${Progress} phase=${phaseOf(props.state)} leaveWallet=${props.actions.leaveWallet} />`
    case 'stopped':
      return html`<${Stopped} ...${props} />`
    case 'paid':
    case 'paid_elsewhere':
      return html`<${Paid} ...${props} isElsewhere=${screen === 'paid_elsewhere'} />`
    case 'expired':
      return html`<${Expired} ...${props} />`
    case 'canceled':
      return html`<${Canceled} ...${props} />`
    case 'failed':
      return html`<${Failed} ...${props} />`
    case 'unpayable':
      return html`<${Notice} tone="warn" title="This can't be paid right now">
        No network is open on which the seller has a wallet. Try again in some minutes; nothing was charged.
      <//>`
  }
}

/** The session may know of the payment before its sender does. */
const phaseOf = ({ session, phase }: CheckoutState): Phase =>
  phase.at === 'unheard' && session.processing ? { at: 'confirming' } : phase

const AtFirst = (props: CheckoutProps) =>
  html`<${CheckoutView} ...${props} state=${firstState(props)} actions=${noActions} />`

/** The checkout as the server renders it; the browser goes on with `CheckoutApp`, which is of the same name. */
export const Checkout = island('checkout', AtFirst)
