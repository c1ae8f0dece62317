import { type Children, html } from '../html.ts'

export interface TabsProps {
  /** One of its kind on a page. */
  readonly id: string
  /** What is chosen between, for those who don't see it. */
  readonly label: string
  /** At most six. */
  readonly tabs: readonly { readonly title: string; readonly content: Children }[]
  /** Which one is shown first; with `onChange`, which one is shown. Default: 0. */
  readonly chosen?: number
  readonly onChange?: (index: number) => void
}

/** Views in one place, one of them shown: radio buttons, so that it works without a script. */
export const Tabs = ({ id, label, tabs, chosen = 0, onChange }: TabsProps) =>
  html`<fieldset class="tabs">
    <legend class="visually-hidden">${label}</legend>
    ${tabs.map(
      ({ title }, i) => html`<input
          class="visually-hidden"
          type="radio"
          name=${id}
          id=${`${id}-${i}`}
          value=${String(i)}
          ...${{ [onChange ? 'checked' : 'defaultChecked']: i === chosen }}
          onChange=${onChange && (() => onChange(i))}
        /><label for=${`${id}-${i}`}>${title}</label>`,
    )}
    <div class="panels">${tabs.map(({ content }) => html`<div class="panel">${content}</div>`)}</div>
  </fieldset>`
