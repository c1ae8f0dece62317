import { useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { Field } from '../components/field.ts'
import { Notice } from '../components/notice.ts'
import { showToast } from '../components/toast.ts'
import { Fault, useAction } from '../desk/load.ts'
import { html } from '../html.ts'
import { findWallets } from '../wallets/findWallets.ts'
import { connectWallet } from '../wallets/signText.ts'
import type { Wallet } from '../wallets/wallet.ts'
import type { ProfileAnswer } from './profileTypes.ts'
import { useSeller } from './seller.ts'

interface ToSign {
  readonly message: string
  readonly address: string
  readonly chain: 'base' | 'solana'
}

interface PayoutProps {
  readonly profile: ProfileAnswer
  readonly onChanged: (profile: ProfileAnswer) => void
}

/** Which wallets buyers pay. The wallet that signs in has to sign a change: a stolen session moves no money. */
export function Payout({ profile: { payout }, onChanged }: PayoutProps) {
  const { ask } = useSeller()
  const [base, setBase] = useState(payout.base ?? '')
  const [solana, setSolana] = useState(payout.solana ?? '')
  const action = useAction()
  const wanted = { base: base.trim() || null, solana: solana.trim() || null }
  const isChanged = wanted.base !== payout.base || wanted.solana !== payout.solana

  const save = (event: Event) => {
    event.preventDefault()
    void action.run(async () => {
      const { message, address, chain } = await ask<ToSign>('POST', '/api/v1/profile/payout/nonce', {
        payout: wanted,
      })
      const signature = await signWith(address, chain, message)
      const body = { payout: wanted, payoutProof: { message, signature } }
      onChanged(await ask<ProfileAnswer>('PATCH', '/api/v1/profile', body))
      showToast({ text: 'Buyers pay there from now on' })
    })
  }
  return html`<${Card} title="Who is paid">
    <form class="stack" onSubmit=${save} novalidate>
      ${(payout.warnings ?? []).map((warning) => html`<${Notice} tone="warn" title="This wallet can’t be paid"><p>${warning}</p><//>`)}
      <${Field} id="base" label="Wallet on Base" value=${base} onInput=${setBase} class="input mono" autocomplete="off" spellcheck=${false} />
      <${Field} id="solana" label="Wallet on Solana" value=${solana} onInput=${setSolana} class="input mono" autocomplete="off" spellcheck=${false} />
      <p class="soft small">Buyers pay these wallets directly. A change is signed by the wallet of your store.</p>
      <${Fault} of=${action} />
      <div class="row"><${Button} kind=${isChanged ? 'primary' : 'plain'} type="submit" isBusy=${action.isBusy} disabled=${!isChanged}>Sign and save<//></div>
    </form>
  <//>`
}

/** Looks through the wallets of this browser for the one that has to sign. */
async function signWith(address: string, chain: ToSign['chain'], message: string): Promise<string> {
  const family = chain === 'base' ? 'eip155' : 'solana'
  const isSame = (other: string) =>
    chain === 'base' ? other.toLowerCase() === address.toLowerCase() : other === address
  for (const wallet of (await lookForWallets()).filter((one) => one.family === family)) {
    const connected = await connectWallet(wallet)
    if (isSame(connected.address)) return connected.signText(message)
  }
  throw new Error(
    `The wallet ${address} has to sign this, and no wallet of this browser is on that account. Choose it there and try again.`,
  )
}

/** Wallets tell of themselves within a moment. */
const LOOKING_MS = 600

function lookForWallets(): Promise<readonly Wallet[]> {
  let found: readonly Wallet[] = []
  const end = findWallets((wallets) => {
    found = wallets
  })
  return new Promise((resolve) =>
    setTimeout(() => {
      end()
      resolve(found)
    }, LOOKING_MS),
  )
}
