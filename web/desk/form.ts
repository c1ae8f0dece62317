import { useEffect, useRef, useState } from 'preact/hooks'
import { Notice } from '../components/notice.ts'
import { type Children, html } from '../html.ts'
import { ApiFault } from './api.ts'
import type { Action } from './load.ts'
import { useUnsaved } from './unsaved.ts'

/**
 * A form's sentences for what is refused: by the field's path in the API, and there by the code of the detail or of the error.
 * `expected` says what the field takes, for the codes that say no more than that it got something else. What has no sentence here
 * is shown in the API's.
 */
export type FormWords = Readonly<Record<string, Readonly<Record<string, string>>>>

/** What is wrong with a form. */
export interface FormFault {
  /** By the field's path. */
  readonly at: Readonly<Record<string, string>>
  /** What is about none of its fields. */
  readonly line: string | undefined
}

/** Codes that don't say more than `expected` does. */
const shapeCodes: ReadonlySet<string> = new Set([
  ...['required', 'type', 'format', 'too_short', 'not_allowed'],
  ...['scheme', 'host', 'characters', 'url'],
])

/** Sorts what was refused by the fields of a form. */
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

/** Refuses a form before it is sent. @param at sentences by the field's path */
export const refuse = (at: Readonly<Record<string, string>>): ApiFault =>
  new ApiFault(400, {
    ...{ code: 'VALIDATION_ERROR', message: '' },
    details: Object.entries(at).map(([path, message]) => ({ path, code: 'refused', message })),
  })

interface FormElement {
  querySelector(selector: string): { focus(): void } | null
}

export interface Form<Fields> {
  readonly fields: Fields
  readonly set: (part: Partial<Fields>) => void
  /** What a text field is drawn with. @param path in the API, where it is another than the field's name */
  readonly at: <Name extends keyof Fields & string>(
    name: Name,
    path?: string,
  ) => {
    readonly id: Name
    readonly value: Fields[Name]
    readonly onInput: (value: Fields[Name]) => void
    readonly error: string | undefined
  }
  /** What is wrong at a path of the API. */
  readonly errorAt: (path: string) => string | undefined
  /** What is wrong beside the fields, to stand above the button; nothing where nothing is. */
  readonly line: Children
  /** For `ref` of the form's element. */
  readonly ref: { current: FormElement | null }
  /** For `onSubmit` of the form's element. */
  readonly submit: (work: (fields: Fields) => Promise<unknown>) => (event: Event) => void
}

/**
 * The fields of a form. What is refused stands at its field, and the first such field gets the focus; while something is filled in
 * that is not saved, leaving the page asks first.
 *
 * @param stored what the form begins with; where a save has changed it, the form shows what was saved
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
    // What was typed since is kept.
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
    ...{ fields, set, ref },
    at: (name, path = name) => ({
      ...{ id: name, value: fields[name] },
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

/** Spaces around a text are no change. */
const textOf = (fields: object): string =>
  JSON.stringify(fields, (_, value) => (typeof value === 'string' ? value.trim() : value))

/** Sentences for a field that takes an address of the web. @param expected such as `Enter the address of your API, …` */
export const addressWords = (expected: string) => ({
  expected,
  private_address: 'This address is not public. Enter one that the internet can reach.',
  credentials: 'Leave the name and the password out of the address.',
})
