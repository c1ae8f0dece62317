import { html } from '../html.ts'
import { CopyButton } from './copyButton.ts'
import { Tabs } from './tabs.ts'

export interface CodeSample {
  readonly title: string
  readonly code: string
}

/** One piece of code with a button that copies it. */
export const Code = ({ title, code }: CodeSample) =>
  html`<div class="code"><${CopyButton} text=${code} what=${title} /><pre><code>${code}</code></pre></div>`

/** The same said in several languages, behind tabs. */
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
