import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { Field } from '../components/field.ts'
import { Notice } from '../components/notice.ts'
import { showToast } from '../components/toast.ts'
import { useForm } from '../desk/form.ts'
import { useAction } from '../desk/load.ts'
import { html } from '../html.ts'
import type { ProfileAnswer } from './profileTypes.ts'
import { useSignedChange } from './signedChange.ts'

interface PayoutProps {
  readonly profile: ProfileAnswer
  readonly onChanged: (profile: ProfileAnswer) => void
}

const words = {
  'payout.base': { expected: 'Enter an address on Base: 0x and 40 characters.' },
  'payout.solana': { expected: 'Enter an address on Solana: 32 to 44 characters.' },
}

/** Which wallets buyers pay. The wallet that signs in has to sign a change: a stolen session moves no money. */
export function Payout({ profile: { payout }, onChanged }: PayoutProps) {
  const changeProfile = useSignedChange('payout')
  const action = useAction()
  const form = useForm({ base: payout.base ?? '', solana: payout.solana ?? '' }, action, words)
  const { base, solana } = form.fields
  const wanted = { base: base.trim() || null, solana: solana.trim() || null }
  const isChanged = wanted.base !== payout.base || wanted.solana !== payout.solana

  const save = form.submit(async () => {
    onChanged(await changeProfile({ payout: wanted }))
    showToast({ text: 'Buyers pay there from now on' })
  })
  return html`<${Card} title="Who is paid">
    <form class="stack" ref=${form.ref} onSubmit=${save} novalidate>
      ${(payout.warnings ?? []).map((warning) => html`<${Notice} tone="warn" title="This wallet can’t be paid"><p>${warning}</p><//>`)}
      <${Field} ...${form.at('base', 'payout.base')} label="Wallet on Base" class="input mono" autocomplete="off" spellcheck=${false} />
      <${Field} ...${form.at('solana', 'payout.solana')} label="Wallet on Solana" class="input mono" autocomplete="off" spellcheck=${false} />
      <p class="soft small">Buyers pay these wallets directly. A change is signed by the wallet of your store.</p>
      ${form.line}
      <div class="row"><${Button} kind=${isChanged ? 'primary' : 'plain'} type="submit" isBusy=${action.isBusy} disabled=${!isChanged}>Sign and save<//></div>
    </form>
  <//>`
}
