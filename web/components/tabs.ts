import { type Children, html } from '../html.ts'
import { CopyButton } from './button.ts'

export interface TabsProps {
  /** Unique on the page. */
  readonly id: string
  /** Name of the choice, for screen readers. */
  readonly label: string
  /** At most six. */
  readonly tabs: readonly { readonly title: string; readonly content: Children }[]
  /** Index of the selected tab. Without `onChange`, it is the tab that is selected at first. Default: 0. */
  readonly chosen?: number
  readonly onChange?: (index: number) => void
}

/** Views of which one is visible. They use radio buttons, so they work without JavaScript. */
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

export interface CodeSample {
  readonly title: string
  readonly code: string
}

/** A piece of code with a copy button. */
export const Code = ({ title, code }: CodeSample) =>
  html`<div class="code"><${CopyButton} text=${code} what=${title} /><pre><code>${code}</code></pre></div>`

/** The same example in several languages, as tabs. */
export const CodeBlock = ({
  id,
  label,
  samples,
}: {
  readonly id: string
  readonly label: string
  readonly samples: readonly CodeSample[]
}) =>
  html`<${Tabs} id=${id} label=${label} tabs=${samples.map((one) => ({ title: one.title, content: html`<${Code} ...${one} />` }))} />`
