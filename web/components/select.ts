import { html } from '../html.ts'

export interface SelectProps {
  readonly id: string
  readonly name?: string
  readonly label: string
  readonly value?: string
  readonly hint?: string | undefined
  readonly options: readonly { readonly value: string; readonly label: string }[]
  readonly onChange?: (value: string) => void
}

/** A labelled choice of one. */
export function Select({ id, name = id, label, value = '', hint, options, onChange }: SelectProps) {
  const change =
    onChange && ((event: Event) => onChange((event.target as unknown as { value: string }).value))
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <select class="input" id=${id} name=${name} aria-describedby=${hint && `${id}-hint`} onChange=${change}>
      ${options.map((one) => html`<option value=${one.value} selected=${one.value === value}>${one.label}</option>`)}
    </select>
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
  </div>`
}
