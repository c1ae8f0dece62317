import { useEffect, useRef, useState } from 'preact/hooks'
import { Notice } from '../components/card.ts'
import { type Children, html } from '../html.ts'
import { ApiFault } from './api.ts'
import type { Action } from './load.ts'
import { useUnsaved } from './unsaved.ts'

/**
 * Error messages of a form, by the field's path in the API, then by the code of the detail or the error. `expected` states what
 * the field accepts. It is for codes that state only that the value has the wrong form. Other errors are shown with the API's
 * message.
 */
export type FormWords = Readonly<Record<string, Readonly<Record<string, string>>>>

/** The errors of a form. */
export interface FormFault {
  /** Messages by the field's path. */
  readonly at: Readonly<Record<string, string>>
  /** The error that belongs to no field. */
  readonly line: string | undefined
}

/** Codes for which `expected` is shown, because they give no further information. */
const shapeCodes: ReadonlySet<string> = new Set([
  ...['required', 'type', 'format', 'too_short', 'not_allowed'],
  ...['scheme', 'host', 'characters', 'url'],
])

/** Assigns an error of the API to the fields of a form. */
export function readFault(fault: ApiFault | undefined, words: FormWords): FormFault {
  if (fault === undefined) return { at: {}, line: undefined }
  const field = Object.keys(words).find((path) => words[path]![fault.code] !== undefined)
  if (field !== undefined) return { at: { [field]: words[field]![fault.code]! }, line: undefined }
  const at: Record<string, string> = {}
  const others: string[] = []
  for (const { path, code, message } of fault.details) {
    const root = path.split(/[.[/]/)[0]!
    const listed = path.replaceAll(/\[\d+\]/g, '[]')
    const of = words[listed] ?? words[root]
    if (of === undefined) others.push(message)
    else
      at[words[listed] ? path : root] ??=
        of[code] ?? (shapeCodes.has(code) ? (of['expected'] ?? message) : message)
  }
  const line = fault.details.length === 0 ? fault.message : others.join(' ')
  return { at, line: line || undefined }
}

/**
 * An error for a form that is refused before it is sent.
 * @param at messages by the field's path
 */
export const refuse = (at: Readonly<Record<string, string>>): ApiFault =>
  new ApiFault(400, {
    code: 'VALIDATION_ERROR',
    message: '',
    details: Object.entries(at).map(([path, message]) => ({ path, code: 'refused', message })),
  })

interface FormElement {
  querySelector(selector: string): { focus(): void } | null
}

export interface Form<Fields> {
  readonly fields: Fields
  readonly set: (part: Partial<Fields>) => void
  /**
   * Props of a text field.
   * @param path the field's path in the API, if it differs from the field's name
   */
  readonly at: <Name extends keyof Fields & string>(
    name: Name,
    path?: string,
  ) => {
    readonly id: Name
    readonly value: Fields[Name]
    readonly onInput: (value: Fields[Name]) => void
    readonly error: string | undefined
  }
  /** The error of the field with this path in the API. */
  readonly errorAt: (path: string) => string | undefined
  /** The error that belongs to no field, which is shown above the button. Empty if there is none. */
  readonly line: Children
  /** The `ref` of the form's element. */
  readonly ref: { current: FormElement | null }
  /** The `onSubmit` of the form's element. */
  readonly submit: (work: (fields: Fields) => Promise<unknown>) => (event: Event) => void
}

/**
 * The state of a form. Errors appear at their fields, and the first one gets the focus. If there are unsaved changes, the
 * reader is asked before the page is left.
 *
 * @param stored the saved values. After a save, the form shows the new ones
 */
export function useForm<Fields extends object>(
  stored: Fields,
  action: Action,
  words: FormWords,
): Form<Fields> {
  const [fields, setFields] = useState(stored)
  const [saved, setSaved] = useState(stored)
  const sent = useRef<Fields | undefined>(undefined)
  const ref = useRef<FormElement>(null)
  useEffect(() => {
    setSaved(stored)
    // Text that was typed during the save stays.
    setFields((now) => (now === sent.current ? stored : now))
  }, [textOf(stored)])
  useUnsaved(textOf(fields) !== textOf(saved))
  const { fault } = action
  useEffect(() => {
    if (fault !== undefined)
      ref.current?.querySelector('[aria-invalid="true"], [data-invalid] input')?.focus()
  }, [fault])

  const { at: errors, line } = readFault(fault, words)
  const set = (part: Partial<Fields>) => setFields((before) => ({ ...before, ...part }))
  return {
    fields,
    set,
    ref,
    at: (name, path = name) => ({
      id: name,
      value: fields[name],
      onInput: (value) => set({ [name]: value } as unknown as Partial<Fields>),
      error: fields[name] === sent.current?.[name] ? errors[path] : undefined,
    }),
    errorAt: (path) => errors[path],
    line:
      line !== undefined &&
      html`<${Notice} tone="bad" title=${line} requestId=${fault!.status >= 500 ? fault!.requestId : undefined} isAlert=${true} />`,
    submit: (work) => (event) => {
      event.preventDefault()
      sent.current = fields
      void action.run(async () => {
        await work(fields)
        setSaved(fields)
      })
    },
  }
}

/** Spaces at the ends are no change. */
const textOf = (fields: object): string =>
  JSON.stringify(fields, (_, value) => (typeof value === 'string' ? value.trim() : value))

/**
 * Messages for a field that takes a public URL.
 * @param expected such as `Enter the address of your API, …`
 */
export const addressWords = (expected: string) => ({
  expected,
  private_address: 'This address is not reachable from the internet. Enter a public address.',
  credentials: 'Remove the user name and password from the address.',
})
