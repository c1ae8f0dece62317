import { Mark } from '../components/mark.ts'
import { type Children, html } from '../html.ts'
import { Checkout } from './checkoutView.ts'
import type { CheckoutProps } from './state.ts'

interface FrameProps {
  readonly serviceName: string
  /** What is paid with; left out where nothing is paid. */
  readonly currency?: string | undefined
  readonly children?: Children
}

/** No way around: whoever pays is led away by nothing. */
const Frame = ({ serviceName, currency, children }: FrameProps) =>
  html`<div class="checkout-page">
    <header class="checkout-top"><span class="brand"><${Mark} />${serviceName}</span></header>
    <main>${children}</main>
    <footer class="small soft">
      ${currency !== undefined && html`<p>Paid in ${currency} from your own wallet. Payments are final.</p>`}
      ${
        currency !== undefined &&
        html`<details><summary>How it works</summary>
          <p>You choose a wallet, and it shows you the amount and the seller's address to sign. The signature moves exactly this amount once, from your wallet to the seller's; you pay no network fee and approve nothing else. When the network has confirmed it you see a receipt here and go back to the seller.</p>
        </details>`
      }
    </footer>
  </div>`

export const CheckoutPage = ({ serviceName, ...props }: CheckoutProps & { readonly serviceName: string }) =>
  html`<${Frame} serviceName=${serviceName} currency=${isPaid(props) ? props.sum.currency : undefined}><${Checkout} ...${props} /><//>`

/** It can be paid, or was. */
const isPaid = ({ session: { status } }: CheckoutProps): boolean =>
  status === 'open' || status === 'confirmed'

export interface NoCheckoutProps {
  readonly serviceName: string
  readonly title: string
  readonly about: string
}

/** Where there is nothing to pay: a wrong address, or one without its secret. */
export const NoCheckoutPage = ({ serviceName, title, about }: NoCheckoutProps) =>
  html`<${Frame} serviceName=${serviceName}>
    <section class="card checkout-do checkout-end"><h1>${title}</h1><p class="soft">${about}</p></section>
  <//>`
