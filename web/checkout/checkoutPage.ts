import { Mark } from '../components/button.ts'
import { type Children, html } from '../html.ts'
import { Checkout } from './checkoutView.ts'
import type { CheckoutProps } from './state.ts'

interface FrameProps {
  readonly serviceName: string
  /** The currency of the payment. Absent on pages without a payment. */
  readonly currency?: string | undefined
  readonly children?: Children
}

/** The frame of the checkout. It has no navigation, so that nothing distracts the buyer from paying. */
const Frame = ({ serviceName, currency, children }: FrameProps) =>
  html`<div class="checkout-page">
    <header class="checkout-top"><span class="brand"><${Mark} />${serviceName}</span></header>
    <main>${children}</main>
    <footer class="small soft">
      ${currency !== undefined && html`<p>Paid in ${currency} from your own wallet. Payments are final.</p>`}
      ${
        currency !== undefined &&
        html`<details><summary>How it works</summary>
          <p>You choose a wallet, and it shows you the amount and the seller's address to sign. Your signature allows one transfer of exactly this amount from your wallet to the seller's. You pay no network fee and approve nothing else. When the network has confirmed the payment, you see a receipt here and go back to the seller.</p>
        </details>`
      }
    </footer>
  </div>`

export const CheckoutPage = ({ serviceName, ...props }: CheckoutProps & { readonly serviceName: string }) =>
  html`<${Frame} serviceName=${serviceName} currency=${isPaid(props) ? props.sum.currency : undefined}><${Checkout} ...${props} /><//>`

/** Whether the session was paid. */
const isPaid = ({ session: { status } }: CheckoutProps): boolean =>
  status === 'open' || status === 'confirmed'

export interface NoCheckoutProps {
  readonly serviceName: string
  readonly title: string
  readonly about: string
}

/** The page for a wrong address, or for an address without its secret. */
export const NoCheckoutPage = ({ serviceName, title, about }: NoCheckoutProps) =>
  html`<${Frame} serviceName=${serviceName}>
    <section class="card checkout-do checkout-end"><h1>${title}</h1><p class="soft">${about}</p></section>
  <//>`
