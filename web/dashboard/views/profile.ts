import { Button } from '../../components/button.ts'
import { Card } from '../../components/card.ts'
import { Field } from '../../components/field.ts'
import { Notice } from '../../components/notice.ts'
import { showToast } from '../../components/toast.ts'
import { useForm } from '../../desk/form.ts'
import { Fault, Load, useAction, useLoad } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { html } from '../../html.ts'
import { Browsers } from '../browsers.ts'
import { Payout } from '../payout.ts'
import { Picture } from '../picture.ts'
import type { ProfileAnswer } from '../profileTypes.ts'
import { useSeller } from '../seller.ts'
import { useSignedChange } from '../signedChange.ts'
import { Socials } from '../socials.ts'
import { storeWords } from '../storeWords.ts'

/** What buyers see of the store, who it is paid to, and who is signed in to it. */
export function Profile() {
  const { ask } = useSeller()
  const profile = useLoad(() => ask<ProfileAnswer>('GET', '/api/v1/profile'), [])
  const draw = (data: ProfileAnswer) => html`<div class="desk-two">
    <div class="stack">
      <${Names} profile=${data} onChanged=${profile.set} />
      <${Picture} profile=${data} onChanged=${profile.set} />
    </div>
    <div class="stack">
      <${Payout} profile=${data} onChanged=${profile.set} />
      <${Socials} profile=${data} onChanged=${profile.set} />
      <${DeveloperMode} profile=${data} onChanged=${profile.set} />
    </div>
  </div>`
  return html`<div class="stack"><${Title}>Profile<//><${Load} of=${profile}>${draw}<//><${Browsers} /></div>`
}

interface PartProps {
  readonly profile: ProfileAnswer
  readonly onChanged: (profile: ProfileAnswer) => void
}

function Names({ profile, onChanged }: PartProps) {
  const { refresh } = useSeller()
  const changeProfile = useSignedChange('username')
  const { displayName, username, bio } = profile
  const action = useAction()
  const form = useForm({ displayName, username, bio }, action, storeWords)
  const { at } = form
  const save = form.submit(async (fields) => {
    const changed = Object.entries(fields).filter(
      ([name, value]) => value !== profile[name as keyof typeof fields],
    )
    if (changed.length === 0) return
    onChanged(await changeProfile(Object.fromEntries(changed)))
    showToast({ text: 'Saved' })
    refresh()
  })
  return html`<${Card} title="Your store">
    <form class="stack" ref=${form.ref} onSubmit=${save} novalidate>
      <${Field} ...${at('displayName')} label="Name" maxlength="50" />
      <${Field} ...${at('username')} label="Username" hint="Part of every address of yours. The old one leads here for 30 days. Once you have sold, the wallet of your store signs a change." autocapitalize="none" spellcheck=${false} />
      <${Field} ...${at('bio')} label="About" rows=${3} maxlength="160" />
      ${form.line}
      <div class="row"><${Button} kind="primary" type="submit" isBusy=${action.isBusy}>Save<//></div>
    </form>
  <//>`
}

function DeveloperMode({ profile, onChanged }: PartProps) {
  const { ask, refresh } = useSeller()
  const action = useAction()
  const isOn = profile.developerModeEnabled
  const toggle = () =>
    action.run(async () => {
      onChanged(await ask<ProfileAnswer>('PATCH', '/api/v1/profile', { developerModeEnabled: !isOn }))
      refresh()
    })
  return html`<${Card} title="Developer Mode">
    <div class="stack">
      <p class="soft">Shows API keys and webhooks here. Keys that work go on working either way.</p>
      <label class="check"><input type="checkbox" role="switch" checked=${isOn} disabled=${action.isBusy} onChange=${toggle} /> ${isOn ? 'On' : 'Off'}</label>
      <${Fault} of=${action} />
      ${isOn && html`<${Notice} title="You see keys and webhooks now"><p><a href="/dashboard/developer">Make an API key</a></p><//>`}
    </div>
  <//>`
}
