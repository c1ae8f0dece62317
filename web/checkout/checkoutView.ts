import { Button } from '../components/button.ts'
import { Notice } from '../components/card.ts'
import { Amount } from '../components/money.ts'
import { Countdown } from '../components/time.ts'
import { html } from '../html.ts'
import { island } from '../island/island.ts'
import { noActions, type ViewProps } from './actions.ts'
import { Canceled, Expired, Failed, Paid, Stopped } from './endings.ts'
import { PaymentMethods } from './paymentMethods.ts'
import { type CheckoutProps, type CheckoutState, firstState, type Phase, screenOf } from './state.ts'

const steps = ['Your signature', 'Sending', 'Confirming'] as const

const words = (phase: Phase): { readonly at: number; readonly title: string; readonly about: string } => {
  switch (phase.at) {
    case 'connecting':
      return {
        at: 0,
        title: `Connect ${phase.walletName}`,
        about: 'Choose in your wallet which account to share with this page.',
      }
    case 'checking':
      return {
        at: 0,
        title: 'Checking',
        about: 'Checking the network and your balance. Your wallet may ask to switch networks.',
      }
    case 'signing':
      return {
        at: 0,
        title: 'Waiting for your signature',
        about: `Open ${phase.walletName} and check what you sign. You sign once and pay no gas.`,
      }
    case 'sending':
      return { at: 1, title: 'Sending', about: 'Signed. The payment is on its way to the network.' }
    case 'unheard':
      return {
        at: 1,
        title: 'No response yet',
        about:
          'The gateway has not confirmed that it received your payment. Keep this page open. The page sends the same payment again until the gateway confirms it. You are charged only once.',
      }
    default:
      return {
        at: 2,
        title: 'Confirming',
        about:
          'Your payment was sent. The confirmation takes a few seconds. Do not pay again, even if you close this page.',
      }
  }
}

/** Shows the progress of a payment as steps and in words. */
function Progress({ phase, leaveWallet }: { readonly phase: Phase; leaveWallet(): void }) {
  const { at, title, about } = words(phase)
  return html`<div class="checkout-progress">
    <ol>
      ${steps.map(
        (step, i) =>
          html`<li data-state=${i < at ? 'done' : i === at ? 'now' : 'later'} aria-current=${i === at ? 'step' : undefined}><span>${step}</span></li>`,
      )}
    </ol>
    <div role="status">
      <h2 tabindex="-1">${title}</h2>
      <p class="soft">${about}</p>
    </div>
    ${'walletName' in phase && html`<div class="checkout-foot"><${Button} kind="quiet" size="small" class="checkout-cancel" onClick=${leaveWallet}>Choose another wallet<//></div>`}
  </div>`
}

/** The checkout. It shows the price, the seller, and what to do next. */
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
      return html`<${PaymentMethods} ...${props} />`
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
      return html`<${Notice} tone="warn" title="You can't pay right now">
        None of the networks that the seller accepts is available. Try again in a few minutes. Nothing was charged.
      <//>`
  }
}

/** The phase to show. The session may report the payment before the request that sent it returns. */
const phaseOf = ({ session, phase }: CheckoutState): Phase =>
  phase.at === 'unheard' && session.processing ? { at: 'confirming' } : phase

const AtFirst = (props: CheckoutProps) =>
  html`<${CheckoutView} ...${props} state=${firstState(props)} actions=${noActions} />`

/** The server renders this component. In the browser, `CheckoutApp` is registered under the same name and replaces it. */
export const Checkout = island('checkout', AtFirst)
