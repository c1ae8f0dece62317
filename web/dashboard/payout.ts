import { useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { Field } from '../components/field.ts'
import { Notice } from '../components/notice.ts'
import { showToast } from '../components/toast.ts'
import { Fault, useAction } from '../desk/load.ts'
import { html } from '../html.ts'
import type { ProfileAnswer } from './profileTypes.ts'
import { useSignedChange } from './signedChange.ts'

interface PayoutProps {
  readonly profile: ProfileAnswer
  readonly onChanged: (profile: ProfileAnswer) => void
}

/** Which wallets buyers pay. The wallet that signs in has to sign a change: a stolen session moves no money. */
export function Payout({ profile: { payout }, onChanged }: PayoutProps) {
  const changeProfile = useSignedChange('payout')
  const [base, setBase] = useState(payout.base ?? '')
  const [solana, setSolana] = useState(payout.solana ?? '')
  const action = useAction()
  const wanted = { base: base.trim() || null, solana: solana.trim() || null }
  const isChanged = wanted.base !== payout.base || wanted.solana !== payout.solana

  const save = (event: Event) => {
    event.preventDefault()
    void action.run(async () => {
      onChanged(await changeProfile({ payout: wanted }))
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
