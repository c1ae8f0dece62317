import { useRef } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { showToast } from '../components/dialog.ts'
import { Field, Select } from '../components/field.ts'
import { html } from '../html.ts'
import { addressWords, useForm } from '../shell/form.ts'
import { useAction } from '../shell/load.ts'
import type { ImageProps } from './image.ts'
import { useSeller } from './seller.ts'
import type { SocialResponse } from './types.ts'

const MAX_SOCIALS = 10

const kinds = [
  { value: 'website', label: 'Website' },
  { value: 'x', label: 'X' },
  { value: 'github', label: 'GitHub' },
  { value: 'telegram', label: 'Telegram' },
  { value: 'discord', label: 'Discord' },
  { value: 'youtube', label: 'YouTube' },
  { value: 'linkedin', label: 'LinkedIn' },
  { value: 'web3_bio', label: 'Web3.bio' },
  { value: 'facebook', label: 'Facebook' },
  { value: 'instagram', label: 'Instagram' },
  { value: 'tiktok', label: 'TikTok' },
]

interface Row {
  /** Identifies the row as long as it exists. */
  readonly key: number
  readonly type: string
  readonly url: string
  readonly isVisible: boolean
}

const words = {
  'socials[].url': addressWords('Enter the full address of the page, such as https://github.com/you.'),
}

/** The seller's social links, in the order in which buyers see them. */
export function Socials({ profile, onChanged }: ImageProps) {
  const { api } = useSeller()
  const next = useRef(MAX_SOCIALS)
  const stored = profile.socials.map(({ type, url, isVisible }, key): Row => ({ key, type, url, isVisible }))
  const action = useAction()
  const form = useForm({ rows: stored }, action, words)
  const { rows } = form.fields
  const change = (rows: Row[]) => {
    // Errors belong to the positions of rows, which have changed.
    action.clear()
    form.set({ rows })
  }
  const set = (at: number, to: Partial<Row>) => change(rows.with(at, { ...rows[at]!, ...to }))
  const add = () => change([...rows, { key: next.current++, type: 'website', url: '', isVisible: true }])
  const raise = (at: number) => change(rows.with(at - 1, rows[at]!).with(at, rows[at - 1]!))
  const save = form.submit(async ({ rows }) => {
    const socials = rows.map(({ type, url, isVisible }, displayOrder) => ({
      type,
      url: url.trim(),
      isVisible,
      displayOrder,
    }))
    const saved = await api<{ socials: readonly SocialResponse[] }>('POST', '/api/v1/socials', { socials })
    onChanged({ ...profile, ...saved })
    showToast({ text: 'Saved' })
  })
  return html`<${Card} title="Social links">
    <form class="stack" ref=${form.ref} onSubmit=${save} novalidate>
      ${rows.length === 0 && html`<p class="soft">Buyers trust sellers whom they can find elsewhere, such as on a website, GitHub or X.</p>`}
      ${rows.map(
        ({ key, type, url, isVisible }, at) => html`<fieldset class="shell-social" key=${key}>
          <legend class="visually-hidden">Social link ${at + 1}</legend>
          <${Select} id=${`social-${key}-type`} label="Type" value=${type} options=${kinds} onChange=${(value: string) => set(at, { type: value })} />
          <${Field} id=${`social-${key}-url`} label="Address" type="url" inputmode="url" value=${url} placeholder="https://…" maxlength="500" autocapitalize="none"
            onInput=${(value: string) => set(at, { url: value })} error=${form.errorAt(`socials[${at}].url`)} />
          <div class="row shell-social-row">
            <label class="check"><input type="checkbox" checked=${isVisible} onChange=${() => set(at, { isVisible: !isVisible })} /> Visible to buyers</label>
            ${at > 0 && html`<${Button} size="small" kind="quiet" onClick=${() => raise(at)}>Move up<span class="visually-hidden"> social link ${at + 1}</span><//>`}
            <${Button} size="small" kind="danger" onClick=${() => change(rows.filter((row) => row.key !== key))}>Remove<span class="visually-hidden"> social link ${at + 1}</span><//>
          </div>
        </fieldset>`,
      )}
      ${form.line}
      <div class="row"><${Button} kind="primary" type="submit" isBusy=${action.isBusy}>Save<//>
        ${rows.length < MAX_SOCIALS && html`<${Button} onClick=${add}>Add social link<//>`}</div>
    </form>
  <//>`
}
