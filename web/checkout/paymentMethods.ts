import { familyOf, networkTitle } from '../../core/domain/network.ts'
import { Button, CopyButton, Icon } from '../components/button.ts'
import { Address, Amount } from '../components/money.ts'
import { Code, Tabs } from '../components/tabs.ts'
import { html } from '../html.ts'
import type { ViewProps } from './actions.ts'
import { type CheckoutOffer, chosenOffer, type ShownWallet } from './state.ts'

/** The tabs of the payment methods: a wallet in this browser, another device, a terminal. */
export function PaymentMethods(props: ViewProps) {
  const cancel = (event: Event) => {
    event.preventDefault()
    props.actions.cancel()
  }
  return html`<h2 class="visually-hidden" tabindex="-1">Choose how to pay</h2>
    <${Tabs} id="way" label="Payment method" chosen=${props.state.selected} onChange=${props.actions.selectMethod} tabs=${[
      { title: 'Wallet', content: html`<${ByWallet} ...${props} />` },
      { title: 'Phone', content: html`<${ByPhone} ...${props} />` },
      { title: 'Terminal', content: html`<${ByTerminal} ...${props} />` },
    ]} />
    <div class="checkout-foot">
      <form method="post" action=${cancelPath(props.checkoutUrl)} onSubmit=${cancel}>
        <${Button} kind="quiet" size="small" type="submit" class="checkout-cancel" isBusy=${props.state.isCanceling}>Cancel payment<//>
      </form>
    </div>`
}

/** The path at which a browser cancels the payment without JavaScript, or before the script has loaded. */
function cancelPath(checkoutUrl: string): string {
  const { pathname, search } = new URL(checkoutUrl)
  return `${pathname}/cancel${search}`
}

function ByWallet({ state, offers, actions }: ViewProps) {
  const offer = chosenOffer(state, offers)!
  const fitting = state.wallets?.filter(({ family }) => family === familyOf(offer.network))
  return html`<div class="stack">
    ${offers.length > 1 && html`<${Networks} offers=${offers} chosen=${offers.indexOf(offer)} choose=${actions.choose} />`}
    <dl class="facts small">
      ${offers.length === 1 && html`<dt>Network</dt><dd>${titleOf(offer)}</dd>`}
      <dt>To</dt><dd><${Address} value=${offer.payTo} canCopy=${false} /></dd>
      <dt>You sign</dt><dd><${Amount} value=${offer.amountText} currency=${offer.asset.symbol} />, once. No gas, no approval.</dd>
    </dl>
    ${fitting === undefined && html`<p class="checkout-wallets soft" role="status"><noscript>Paying from a wallet needs JavaScript. Paying from a terminal does not.</noscript><span class="script-only">Looking for wallets in this browser…</span></p>`}
    ${fitting?.length === 0 && html`<${NoWallet} network=${titleOf(offer)} hasOthers=${offers.length > 1} />`}
    ${
      fitting !== undefined &&
      fitting.length > 0 &&
      html`<ul class="checkout-wallets" aria-label="Wallets of this browser">
        ${fitting.map((wallet, i) => html`<li key=${wallet.id}><${WalletButton} wallet=${wallet} offer=${offer} isFirst=${i === 0} pay=${actions.pay} /></li>`)}
      </ul>`
    }
  </div>`
}

const Networks = ({
  offers,
  chosen,
  choose,
}: {
  readonly offers: readonly CheckoutOffer[]
  readonly chosen: number
  readonly choose: (index: number) => void
}) =>
  html`<fieldset class="choices">
    <legend class="small soft">Network</legend>
    ${offers.map(
      (offer, i) => html`<label key=${`${offer.network} ${offer.asset.symbol}`}>
        <input type="radio" name="network" checked=${i === chosen} onChange=${() => choose(i)} />
        <span>${titleOf(offer)}${offer.asset.symbol !== 'USDC' && html`<small> <${Amount} value=${offer.amountText} currency=${offer.asset.symbol} /></small>`}</span>
      </label>`,
    )}
  </fieldset>`

const WalletButton = ({
  wallet,
  offer,
  isFirst,
  pay,
}: {
  readonly wallet: ShownWallet
  readonly offer: CheckoutOffer
  readonly isFirst: boolean
  readonly pay: (id: string) => void
}) =>
  html`<${Button} kind=${isFirst ? 'primary' : 'plain'} class="checkout-wallet" onClick=${() => pay(wallet.id)}>
    ${wallet.icon === undefined ? html`<${Icon} name="wallet" />` : html`<img src=${wallet.icon} alt="" width="24" height="24" />`}
    <span>Pay <${Amount} value=${offer.amountText} currency=${offer.asset.symbol} /> with <bdi>${wallet.name}</bdi></span>
  <//>`

const NoWallet = ({ network, hasOthers }: { readonly network: string; readonly hasOthers: boolean }) =>
  html`<div class="notice small checkout-wallets" role="status">
    <strong>No wallet for ${network} in this browser</strong>
    <p>
      ${hasOthers && 'Choose another network, or '}${hasOthers ? 'go' : 'Go'} pay with a wallet on your phone or from a
      terminal. On the phone already? Open this page in your wallet's own browser.
    </p>
  </div>`

const ByPhone = ({ qr, checkoutUrl }: ViewProps) =>
  html`<div class="stack checkout-phone">
    <svg class="checkout-qr" viewBox=${`-2 -2 ${qr.size + 4} ${qr.size + 4}`} role="img" aria-label="QR code that opens this checkout on another device">
      <rect x="-2" y="-2" width=${qr.size + 4} height=${qr.size + 4} fill="#fff" /><path d=${qr.path} fill="#000" />
    </svg>
    <p class="small">Scan this with your phone, and open the page in your wallet's browser. This page updates by itself when you have paid.</p>
    <p class="row small"><span class="soft">Or copy the link to this checkout:</span> <${CopyButton} text=${checkoutUrl} what="the link to this checkout" /></p>
  </div>`

const ByTerminal = ({ command }: ViewProps) =>
  html`<div class="stack">
    <p class="small">Agents, and wallets kept in a file or in a vault, pay with this command:</p>
    <${Code} title="tollgate pay" code=${command} />
    <p class="small soft">Any x402 client can pay this link. This page updates by itself when the payment is done.</p>
  </div>`

export const titleOf = ({ network }: Pick<CheckoutOffer, 'network'>): string => networkTitle(network)
