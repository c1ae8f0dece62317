import { html } from '../html.ts'

interface SelectProps {
  readonly id: string
  readonly name?: string
  readonly label: string
  readonly value?: string
  readonly hint?: string | undefined
  /** What is wrong and what to do. Screen readers announce it when it appears. */
  readonly error?: string | undefined
  readonly options: readonly { readonly value: string; readonly label: string }[]
  readonly onChange?: (value: string) => void
  /** True if only screen readers get the label, because nearby text contains it. */
  readonly isLabelHidden?: boolean
  /** Further attributes of the select, such as `disabled`. */
  readonly [attribute: string]: unknown
}

/** A labelled select. */
export function Select(props: SelectProps) {
  const { id, name = id, label, value = '', hint, error, options, onChange, isLabelHidden, ...more } = props
  const change =
    onChange && ((event: Event) => onChange((event.target as unknown as { value: string }).value))
  const describedBy = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ') || undefined
  return html`<div class="field">
    <label class=${isLabelHidden ? 'visually-hidden' : undefined} for=${id}>${label}</label>
    <select class="input" id=${id} name=${name} aria-describedby=${describedBy} aria-invalid=${error && 'true'} onChange=${change} ...${more}>
      ${options.map((one) => html`<option value=${one.value} selected=${one.value === value}>${one.label}</option>`)}
    </select>
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    ${error && html`<p class="error" id=${`${id}-error`} role="alert">${error}</p>`}
  </div>`
}

export interface FieldProps {
  /** Unique on the page. It connects label, input, hint and error. */
  readonly id: string
  readonly name?: string
  readonly label: string
  readonly value?: string
  readonly hint?: string | undefined
  /** What is wrong and what to do. Screen readers announce it when it appears. */
  readonly error?: string | undefined
  /** Number of lines. If it is given, the field is a textarea. */
  readonly rows?: number
  readonly onInput?: (value: string) => void
  /** Further attributes of the input, such as type, placeholder, inputmode, autocomplete, required. */
  readonly [attribute: string]: unknown
}

/** A labelled input with its hint and its error. */
export function Field({ id, name = id, label, value = '', hint, error, rows, onInput, ...more }: FieldProps) {
  const describedBy = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ') || undefined
  const attributes = {
    id,
    name,
    class: 'input',
    value,
    'aria-describedby': describedBy,
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
