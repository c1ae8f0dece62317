import { html } from '../html.ts'

export interface FieldProps {
  /** Ties label, input, hint and error together: one of its kind on a page. */
  readonly id: string
  readonly name?: string
  readonly label: string
  readonly value?: string
  readonly hint?: string | undefined
  /** What is wrong and what to do; read out when it appears. */
  readonly error?: string | undefined
  /** Several lines. */
  readonly rows?: number
  readonly onInput?: (value: string) => void
  /** More attributes of the input: type, placeholder, inputmode, autocomplete, required … */
  readonly [attribute: string]: unknown
}

/** A labelled input with its hint and its error. */
export function Field({ id, name = id, label, value = '', hint, error, rows, onInput, ...more }: FieldProps) {
  const describedBy = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ') || undefined
  const attributes = {
    ...{ id, name, class: 'input', value, 'aria-describedby': describedBy },
    ...(error && { 'aria-invalid': 'true' }),
    ...(onInput && {
      onInput: (event: Event) => onInput((event.target as unknown as { value: string }).value),
    }),
    ...more,
  }
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${rows === undefined ? html`<input dir="auto" ...${attributes} />` : html`<textarea dir="auto" rows=${rows} ...${attributes}></textarea>`}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    ${error && html`<p class="error" id=${`${id}-error`} role="alert">${error}</p>`}
  </div>`
}
