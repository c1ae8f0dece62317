import { useRef, useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { Field } from '../components/field.ts'
import { Select } from '../components/select.ts'
import { showToast } from '../components/toast.ts'
import { Fault, useAction } from '../desk/load.ts'
import { html } from '../html.ts'
import type { PictureProps } from './picture.ts'
import type { ProfileAnswer, SocialAnswer } from './profileTypes.ts'
import { useSeller } from './seller.ts'

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
  /** Of this row as long as it is there. */
  readonly key: number
  readonly type: string
  readonly url: string
  readonly isVisible: boolean
}

/** Other pages of the seller's, in the order in which buyers see them. */
export function Socials({ profile, onChanged }: PictureProps) {
  const { ask } = useSeller()
  const next = useRef(0)
  const rowsOf = ({ socials }: Pick<ProfileAnswer, 'socials'>) =>
    socials.map(({ type, url, isVisible }): Row => ({ key: next.current++, type, url, isVisible }))
  const [rows, setRows] = useState(() => rowsOf(profile))
  const action = useAction()
  const change = (rows: readonly Row[]) => {
    // What was said of a row would stand at another one.
    action.clear()
    setRows([...rows])
  }
  const set = (at: number, to: Partial<Row>) => change(rows.with(at, { ...rows[at]!, ...to }))
  const add = () => change([...rows, { key: next.current++, type: 'website', url: '', isVisible: true }])
  const raise = (at: number) => change(rows.with(at - 1, rows[at]!).with(at, rows[at - 1]!))
  const save = (event: Event) => {
    event.preventDefault()
    void action.run(async () => {
      const socials = rows.map(({ type, url, isVisible }, displayOrder) => ({
        ...{ type, url: url.trim(), isVisible, displayOrder },
      }))
      const saved = await ask<{ socials: readonly SocialAnswer[] }>('POST', '/api/v1/socials', { socials })
      setRows(rowsOf(saved))
      onChanged({ ...profile, ...saved })
      showToast({ text: 'Saved' })
    })
  }
  const details = action.fault?.details ?? {}
  const isAtFields = Object.keys(details).some((path) => path.startsWith('socials['))
  return html`<${Card} title="Your other pages">
    <form class="stack" onSubmit=${save} novalidate>
      ${rows.length === 0 && html`<p class="soft">Buyers trust a seller whom they find elsewhere: a website, GitHub, X.</p>`}
      ${rows.map(
        ({ key, type, url, isVisible }, at) => html`<fieldset class="desk-social" key=${key}>
          <legend class="visually-hidden">Page ${at + 1}</legend>
          <${Select} id=${`social-${key}-type`} label="Where" value=${type} options=${kinds} onChange=${(value: string) => set(at, { type: value })} />
          <${Field} id=${`social-${key}-url`} label="Address" type="url" inputmode="url" value=${url} placeholder="https://…" maxlength="500" autocapitalize="none"
            onInput=${(value: string) => set(at, { url: value })} error=${details[`socials[${at}].url`] ?? details[`socials[${at}].type`]} />
          <div class="row desk-social-row">
            <label class="check"><input type="checkbox" checked=${isVisible} onChange=${() => set(at, { isVisible: !isVisible })} /> Shown to everybody</label>
            ${at > 0 && html`<${Button} size="small" kind="quiet" onClick=${() => raise(at)}>Move up<span class="visually-hidden"> page ${at + 1}</span><//>`}
            <${Button} size="small" kind="danger" onClick=${() => change(rows.filter((row) => row.key !== key))}>Remove<span class="visually-hidden"> page ${at + 1}</span><//>
          </div>
        </fieldset>`,
      )}
      ${!isAtFields && html`<${Fault} of=${action} />`}
      <div class="row"><${Button} kind="primary" type="submit" isBusy=${action.isBusy}>Save<//>
        ${rows.length < MAX_SOCIALS && html`<${Button} onClick=${add}>Add a page<//>`}</div>
    </form>
  <//>`
}
