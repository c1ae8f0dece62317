import { html } from '../html.ts'

export interface SelectProps {
  readonly id: string
  readonly name?: string
  readonly label: string
  readonly value?: string
  readonly hint?: string | undefined
  /** What is wrong and what to do; read out when it appears. */
  readonly error?: string | undefined
  readonly options: readonly { readonly value: string; readonly label: string }[]
  readonly onChange?: (value: string) => void
}

/** A labelled choice of one. */
export function Select({ id, name = id, label, value = '', hint, error, options, onChange }: SelectProps) {
  const change =
    onChange && ((event: Event) => onChange((event.target as unknown as { value: string }).value))
  const describedBy = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ') || undefined
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <select class="input" id=${id} name=${name} aria-describedby=${describedBy} aria-invalid=${error && 'true'} onChange=${change}>
      ${options.map((one) => html`<option value=${one.value} selected=${one.value === value}>${one.label}</option>`)}
    </select>
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    ${error && html`<p class="error" id=${`${id}-error`} role="alert">${error}</p>`}
  </div>`
}
