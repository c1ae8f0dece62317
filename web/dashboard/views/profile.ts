import { Button } from '../../components/button.ts'
import { Badge, Card, Notice } from '../../components/card.ts'
import { showToast } from '../../components/dialog.ts'
import { Field } from '../../components/field.ts'
import { Time } from '../../components/time.ts'
import { html } from '../../html.ts'
import { useForm } from '../../shell/form.ts'
import { Title } from '../../shell/frame.ts'
import { Fault, Load, useAction, useLoad } from '../../shell/load.ts'
import { msOf } from '../../shell/words.ts'
import { AvatarImage } from '../image.ts'
import { useSignedChange } from '../ownWallet.ts'
import { useSeller } from '../seller.ts'
import { storeWords } from '../signIn.ts'
import { Socials } from '../socials.ts'
import type { ProfileResponse } from '../types.ts'

interface BrowserResponse {
  readonly id: string
  readonly isThisOne: boolean
  readonly wallet: { readonly chain: string; readonly address: string } | null
  readonly userAgent: string
  readonly lastSeenAt: string
}

/** The signed-in browsers. The seller can sign out each of them here. */
function Browsers() {
  const { api } = useSeller()
  const loaded = useLoad(
    () => api<{ sessions: readonly BrowserResponse[] }>('GET', '/api/dashboard/sessions'),
    [],
  )
  const action = useAction()
  const end = (id: string) =>
    action.run(async () => {
      await api('DELETE', `/api/dashboard/sessions/${id}`)
      loaded.reload()
    })
  const draw = ({ sessions }: { sessions: readonly BrowserResponse[] }) => html`<ul class="shell-list">
    ${sessions.map(
      ({ id, isThisOne, userAgent, lastSeenAt }) => html`<li key=${id}>
        <div><strong>${nameOf(userAgent)}</strong> ${isThisOne && html`<${Badge} tone="good">This browser<//>`}
          <p class="soft small">Seen <${Time} atMs=${msOf(lastSeenAt)} nowMs=${Date.now()} /></p></div>
        ${!isThisOne && html`<${Button} size="small" kind="danger" isBusy=${action.isBusy} onClick=${() => end(id)}>Sign out<//>`}
      </li>`,
    )}
  </ul>`
  return html`<${Card} title="Signed-in browsers"><div class="stack"><${Fault} of=${action} /><${Load} of=${loaded}>${draw}<//></div><//>`
}

/** `Firefox on Linux`, if the user agent contains both. */
function nameOf(userAgent: string): string {
  const browser = /Edg|Firefox|Chrome|Safari/.exec(userAgent)?.[0]?.replace('Edg', 'Edge') ?? 'A browser'
  const system = /Android|iPhone|iPad|Windows|Mac OS|Linux/.exec(userAgent)?.[0]
  return system === undefined ? browser : `${browser} on ${system}`
}

interface PayoutProps {
  readonly profile: ProfileResponse
  readonly onChanged: (profile: ProfileResponse) => void
}

const words = {
  'payout.base': { expected: 'Enter a Base address of 0x and 40 characters.' },
  'payout.solana': { expected: 'Enter a Solana address of 32 to 44 characters.' },
}

/** The payout wallets. The store's wallet must sign a change, so that a stolen browser session cannot redirect payments. */
function Payout({ profile: { payout }, onChanged }: PayoutProps) {
  const changeProfile = useSignedChange('payout')
  const action = useAction()
  const form = useForm({ base: payout.base ?? '', solana: payout.solana ?? '' }, action, words)
  const { base, solana } = form.fields
  const wanted = { base: base.trim() || null, solana: solana.trim() || null }
  const isChanged = wanted.base !== payout.base || wanted.solana !== payout.solana

  const save = form.submit(async () => {
    onChanged(await changeProfile({ payout: wanted }))
    showToast({ text: 'Payout wallets saved' })
  })
  return html`<${Card} title="Payout wallets">
    <form class="stack" ref=${form.ref} onSubmit=${save} novalidate>
      ${(payout.warnings ?? []).map((warning) => html`<${Notice} tone="warn" title="This wallet can’t be paid"><p>${warning}</p><//>`)}
      <${Field} ...${form.at('base', 'payout.base')} label="Wallet on Base" class="input mono" autocomplete="off" spellcheck=${false} />
      <${Field} ...${form.at('solana', 'payout.solana')} label="Wallet on Solana" class="input mono" autocomplete="off" spellcheck=${false} />
      <p class="soft small">Buyers pay these wallets directly. Your store’s wallet signs each change.</p>
      ${form.line}
      <div class="row"><${Button} kind=${isChanged ? 'primary' : 'plain'} type="submit" isBusy=${action.isBusy} disabled=${!isChanged}>Sign and save<//></div>
    </form>
  <//>`
}

/** The profile that buyers see, the payout wallets, and the signed-in browsers. */
export function Profile() {
  const { api } = useSeller()
  const profile = useLoad(() => api<ProfileResponse>('GET', '/api/v1/profile'), [])
  const draw = (data: ProfileResponse) => html`<div class="shell-two">
    <div class="stack">
      <${Names} profile=${data} onChanged=${profile.set} />
      <${AvatarImage} profile=${data} onChanged=${profile.set} />
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
  readonly profile: ProfileResponse
  readonly onChanged: (profile: ProfileResponse) => void
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
      <${Field} ...${at('username')} label="Username" hint="The username is part of the web address of each of your links. Addresses with the old username redirect for 30 days. After your first sale, your store’s wallet must sign a change." autocapitalize="none" spellcheck=${false} />
      <${Field} ...${at('bio')} label="About" rows=${3} maxlength="160" />
      ${form.line}
      <div class="row"><${Button} kind="primary" type="submit" isBusy=${action.isBusy}>Save<//></div>
    </form>
  <//>`
}

function DeveloperMode({ profile, onChanged }: PartProps) {
  const { api, refresh } = useSeller()
  const action = useAction()
  const isOn = profile.developerModeEnabled
  const toggle = () =>
    action.run(async () => {
      onChanged(await api<ProfileResponse>('PATCH', '/api/v1/profile', { developerModeEnabled: !isOn }))
      refresh()
    })
  return html`<${Card} title="Developer Mode">
    <div class="stack">
      <p class="soft">Developer Mode shows API keys and webhooks. Existing keys keep working while the mode is off.</p>
      <label class="check"><input type="checkbox" role="switch" checked=${isOn} disabled=${action.isBusy} onChange=${toggle} /> ${isOn ? 'On' : 'Off'}</label>
      <${Fault} of=${action} />
      ${isOn && html`<${Notice} title="API keys and webhooks are now shown"><p><a href="/dashboard/developer">Create an API key</a></p><//>`}
    </div>
  <//>`
}
