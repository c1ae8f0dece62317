import { useEffect, useState } from 'preact/hooks'
import type { Asset } from '../../core/domain/asset.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { familyOf, networkTitle } from '../../core/domain/network.ts'
import type { PaymentRequired, PaymentRequirements } from '../../core/x402/types.ts'
import { Address } from '../components/address.ts'
import { Amount } from '../components/amount.ts'
import { Button } from '../components/button.ts'
import { Notice } from '../components/notice.ts'
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

/** What a call costs, and the wallets of this browser that can pay it. */
export function PayOffer({ offer, assets, isBusy, onSigned }: PayOfferProps) {
  const [payer, setPayer] = useState<Payer>()
  const [wallets, setWallets] = useState<readonly FoundWallet[]>([])
  const [step, setStep] = useState<string>()
  const [fault, setFault] = useState<string>()
  useEffect(() => {
    void loadPayer()?.then(setPayer as (loaded: Payer) => void)
  }, [])
  useEffect(() => payer?.find((found) => setWallets(found)), [payer])

  const ways = waysOf(offer, assets)
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
  if (ways.length === 0) {
    return html`<${Notice} tone="warn" title="It can not be paid from here">Its seller has no wallet that this page can pay.<//>`
  }
  return html`<section class="stack offer card">
    <${Tabs}
      id="way"
      label="Pay on"
      tabs=${ways.map((way) => ({
        title: networkTitle(way.entry.network),
        content: html`<${WayView} way=${way} wallets=${wallets} isBusy=${isBusy || step !== undefined} onPay=${(wallet: FoundWallet) => pay(way, wallet)} />`,
      }))}
    />
    ${step && html`<p role="status">${step}</p>`}
    ${fault && html`<${Notice} tone="bad" title=${fault}>Nothing was paid.<//>`}
  </section>`
}

const waysOf = ({ accepts }: PaymentRequired, assets: readonly Asset[]): Way[] =>
  accepts
    .flatMap((entry) => {
      const asset = assets.find(
        ({ network, address }) =>
          network === entry.network && address.toLowerCase() === entry.asset.toLowerCase(),
      )
      return asset && entry.scheme === 'exact' && /^\d+$/.test(entry.amount) ? [{ entry, asset }] : []
    })
    .slice(0, 6)

const WayView = ({
  way: { entry, asset },
  wallets,
  isBusy,
  onPay,
}: {
  readonly way: Way
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
        ? html`<p>No wallet for this network was found in this browser. Install one, or pay from a terminal as shown below.</p>`
        : html`<div class="row">${fitting.map(
            (wallet) => html`<${Button} kind="primary" isBusy=${isBusy} onClick=${() => onPay(wallet)}>
              ${wallet.icon && html`<img src=${wallet.icon} alt="" width="20" height="20" />`}Pay with ${wallet.name}
            <//>`,
          )}</div>`
    }
  </div>`
}
