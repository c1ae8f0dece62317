import { useEffect, useState } from 'preact/hooks'
import type { Asset } from '../../core/domain/asset.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { familyOf, networkTitle } from '../../core/domain/network.ts'
import type { PaymentRequired, PaymentRequirements } from '../../core/x402/types.ts'
import { Button } from '../components/button.ts'
import { Notice } from '../components/card.ts'
import { Address, Amount } from '../components/money.ts'
import { Tabs } from '../components/tabs.ts'
import { html } from '../html.ts'
import { type FoundWallet, loadPayer, type Payer } from './payer.ts'

export interface PayOfferProps {
  readonly offer: PaymentRequired
  readonly assets: readonly Asset[]
  readonly isBusy: boolean
  readonly onSigned: (payment: string) => void
}

interface Way {
  readonly entry: PaymentRequirements
  readonly asset: Asset
}

/** The price of a call, and the wallets in this browser that can pay it. */
export function PayOffer({ offer, assets, isBusy, onSigned }: PayOfferProps) {
  const [payer, setPayer] = useState<Payer>()
  const [wallets, setWallets] = useState<readonly FoundWallet[]>([])
  const [step, setStep] = useState<string>()
  const [fault, setFault] = useState<string>()
  useEffect(() => {
    void loadPayer()?.then(setPayer as (loaded: Payer) => void)
  }, [])
  useEffect(() => payer?.find((found) => setWallets(found)), [payer])

  const methods = methodsOf(offer, assets)
  const pay = async ({ entry }: Way, wallet: FoundWallet) => {
    setFault(undefined)
    try {
      const payment = await payer!.sign(wallet.id, offer, entry, assets, setStep as (words: string) => void)
      setStep('Paying and calling …')
      onSigned(payment)
    } catch (error) {
      setFault((error as Error).message)
      setStep(undefined)
    }
  }
  if (methods.length === 0) {
    return html`<${Notice} tone="warn" title="This call cannot be paid from this page">The seller accepts no payment method that this page supports.<//>`
  }
  return html`<section class="stack offer card">
    <${Tabs}
      id="way"
      label="Pay on"
      tabs=${methods.map((method) => ({
        title: networkTitle(method.entry.network),
        content: html`<${MethodView} method=${method} wallets=${wallets} isBusy=${isBusy || step !== undefined} onPay=${(wallet: FoundWallet) => pay(method, wallet)} />`,
      }))}
    />
    ${step && html`<p role="status">${step}</p>`}
    ${fault && html`<${Notice} tone="bad" title=${fault}>Nothing was paid.<//>`}
  </section>`
}

const methodsOf = ({ accepts }: PaymentRequired, assets: readonly Asset[]): Way[] =>
  accepts
    .flatMap((entry) => {
      const asset = assets.find(
        ({ network, address }) =>
          network === entry.network && address.toLowerCase() === entry.asset.toLowerCase(),
      )
      const isTransfer = entry.scheme === 'exact' && entry.extra['assetTransferMethod'] !== 'permit2'
      return asset && isTransfer && /^\d+$/.test(entry.amount) ? [{ entry, asset }] : []
    })
    .slice(0, 6)

const MethodView = ({
  method: { entry, asset },
  wallets,
  isBusy,
  onPay,
}: {
  readonly method: Way
  readonly wallets: readonly FoundWallet[]
  readonly isBusy: boolean
  readonly onPay: (wallet: FoundWallet) => void
}) => {
  const fitting = wallets.filter(({ family }) => family === familyOf(entry.network))
  const amount = formatAmount(BigInt(entry.amount), asset.decimals)
  return html`<div class="stack">
    <div>
      <${Amount} value=${amount} currency=${asset.symbol} isBig=${true} />
      <p class="small soft">for this call, to <${Address} value=${entry.payTo} canCopy=${false} />. One signature, no gas.</p>
    </div>
    ${
      fitting.length === 0
        ? html`<p>No wallet for this network was found in this browser. Install a wallet, or pay from a terminal as shown below.</p>`
        : html`<div class="row">${fitting.map(
            (wallet) => html`<${Button} kind="primary" isBusy=${isBusy} onClick=${() => onPay(wallet)}>
              ${wallet.icon && html`<img src=${wallet.icon} alt="" width="20" height="20" />`}Pay with ${wallet.name}
            <//>`,
          )}</div>`
    }
  </div>`
}
