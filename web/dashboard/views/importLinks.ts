import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Card, Notice, Skeleton } from '../../components/card.ts'
import { Field, Select } from '../../components/field.ts'
import { Tabs } from '../../components/tabs.ts'
import { html } from '../../html.ts'
import { addressWords, type FormWords, refuse, useForm } from '../../shell/form.ts'
import { Title } from '../../shell/frame.ts'
import { useAction } from '../../shell/load.ts'
import { useUnsaved } from '../../shell/unsaved.ts'
import { type ImportFields, importBody, MAX_DOCUMENT_BYTES, megabytes } from '../import/importBody.ts'
import { type ImportJob, useImport } from '../import/importJob.ts'
import { Report, summaryOf } from '../import/report.ts'

const blank: ImportFields = {
  document: '',
  price: '0.01',
  rules: '',
  as: 'each',
  visibility: 'listed',
  server: '',
  source: '',
  headers: '',
}

/** Error messages by the API's field names. */
const words: FormWords = {
  document: { expected: 'Choose a file, or paste the document.' },
  price: { expected: 'Enter a price in USDC, such as 0.01, or 0 for free.' },
  prices: { expected: 'Write one price per line, such as POST /render = 0.05.' },
  server: addressWords('Enter the address of your API, such as https://api.example.com/v1.'),
  source: { expected: 'Enter a name of a-z, 0-9 and -.' },
  upstreamHeaders: { expected: 'Write one header per line, such as X-Key: value.' },
}

/** Imports links from an OpenAPI document. It first shows a preview of each operation, then imports them. */
export function ImportLinks() {
  const job = useImport()
  const action = useAction()
  const form = useForm(blank, action, words)
  const { fields, errorAt } = form
  useUnsaved(isOutstanding(job))
  const isRunning = job.phase === 'looking' || job.phase === 'making'
  const set = (name: keyof ImportFields) => (value: string) => {
    form.set({ [name]: value })
    // The form has changed, so the preview is out of date.
    if (!isRunning) job.forget()
  }
  const at = (name: Exclude<keyof ImportFields, 'as' | 'visibility' | 'document'>, path?: string) => ({
    ...form.at(name, path),
    onInput: set(name),
  })
  const preview = form.submit(async (fields) => {
    const { body, errors } = importBody(fields)
    if (Object.keys(errors).length > 0) throw refuse(errors)
    await job.preview(body)
  })
  return html`<div class="stack">
    <${Title} from=${{ href: '/dashboard/links', title: 'Links' }}>Import an OpenAPI document<//>
    <${Card}>
      <form class="stack shell-form" ref=${form.ref} onSubmit=${preview} novalidate>
        <fieldset class="shell-fields stack" disabled=${isRunning}>
          <legend class="visually-hidden">What is imported</legend>
          <${DocumentField} onInput=${set('document')} error=${form.at('document').error} />
          <${Select} id="as" label="Create links for" value=${fields.as} onChange=${set('as')}
            options=${[
              { value: 'each', label: 'Each operation' },
              { value: 'one', label: 'The whole API, as one link for all paths' },
            ]} />
          <${Field} ...${at('price')} label="Price per call, USDC" inputmode="decimal"
            hint="This price applies to operations without a price below or an x-price in the document. 0 is free. If you leave this field empty, these operations are skipped." />
          ${
            fields.as === 'each' &&
            html`<${Field} ...${at('rules', 'prices')} label="Other prices" rows=${3} class="input mono" spellcheck=${false} autocapitalize="none"
              placeholder=${'POST /render = 0.05\nDELETE * = none'} hint="Write one rule per line. A rule begins with an operation, a path or an operationId. * at the end matches every ending. none means not for sale." />`
          }
          <${Select} id="visibility" label="Visibility" value=${fields.visibility} onChange=${set('visibility')}
            options=${[
              { value: 'listed', label: 'Public: listed in the marketplace' },
              { value: 'unlisted', label: 'Unlisted: only people with the address' },
              { value: 'as it was', label: 'Unchanged (new links are unlisted)' },
            ]} />
          <details class="shell-more" open=${['server', 'source', 'upstreamHeaders'].some(errorAt)}>
            <summary>More</summary>
            <div class="stack">
              <${Field} ...${at('server')} label="Address of your API" type="url" inputmode="url" placeholder="https://api.example.com/v1" hint="If you leave this field empty, the gateway uses the document’s first server." />
              <${Field} ...${at('source')} label="Your name for the document" hint="The next import finds these links by this name. If you leave this field empty, the gateway uses the title." autocapitalize="none" />
              <${Field} ...${at('headers', 'upstreamHeaders')} label="Headers for your API" rows=${2} class="input mono" spellcheck=${false} autocapitalize="none" autocomplete="off"
                hint="The gateway sends these headers with every call. Write one per line, such as X-Key: value. The gateway stores them encrypted and never shows them again." />
            </div>
          </details>
        </fieldset>
        ${form.line}
        <div class="row"><${Button} kind=${job.phase === 'none' || job.phase === 'looking' ? 'primary' : 'plain'} type="submit" isBusy=${job.phase === 'looking'}>Preview<//>
          <${Button} kind="quiet" href="/dashboard/links">Cancel<//></div>
        <p class="soft small">You see a preview first. Nothing is created yet.</p>
      </form>
    <//>
    ${job.phase === 'looking' && html`<${Skeleton} count=${4} />`}
    ${job.phase !== 'none' && job.phase !== 'looking' && html`<${Outcome} job=${job} />`}
  </div>`
}

/** Whether the preview has links that are not created or changed yet. */
const isOutstanding = ({ phase, rows }: ImportJob): boolean =>
  phase === 'making' ||
  phase === 'stopped' ||
  (phase === 'looked' && rows.some(({ action }) => action === 'create' || action === 'change'))

const titles: Readonly<Record<string, string>> = {
  looked: 'Preview',
  making: 'Importing',
  stopped: 'Not finished',
  done: 'Done',
}

function Outcome({ job }: { readonly job: ImportJob }) {
  const { phase, rows, done, total, source, server, otherServers, fault } = job
  const count = (action: string) => rows.filter((row) => row.action === action).length
  const [toMake, toChange, failed] = [count('create'), count('change'), count('failed')]
  const work = [
    toMake > 0 && `Create ${links(toMake)}`,
    toChange > 0 && `${toMake > 0 ? 'change' : 'Change'} ${links(toChange)}`,
  ]
  const heading = useRef<{ focus(): void }>(null)
  // The section appears below the form and gets the focus, so that screen readers start there.
  useEffect(() => heading.current?.focus(), [])
  return html`<section class="stack" aria-label="Import result">
    <h2 class="shell-heading" tabindex="-1" ref=${heading}>${titles[phase]}</h2>
    <p aria-live="polite">${summaryOf(rows)}.</p>
    <p class="soft small">Document: <strong>${source}</strong>. API: <span class="shell-address">${server}</span>.
      ${otherServers.length > 0 && `The document also names ${otherServers.join(', ')}. You can choose another server under More.`}</p>
    ${
      phase === 'looked' &&
      (work.some(Boolean)
        ? html`<div class="row"><${Button} kind="primary" onClick=${job.make}>${work.filter(Boolean).join(', ')}<//>
            <span class="soft small">Before it creates a paid link, the gateway checks that the API responds.</span></div>`
        : html`<${Notice} title="Nothing to import"><p>Your links already match the document, or the document has no operation that can be sold.</p><//>`)
    }
    ${
      (phase === 'making' || phase === 'stopped') &&
      html`<div class="shell-progress">
        <label for="progress">${done.toLocaleString('en')} of ${total.toLocaleString('en')} operations</label>
        <progress id="progress" max=${total} value=${done}></progress>
      </div>`
    }
    ${
      phase === 'making' &&
      html`<div class="row"><${Button} onClick=${job.stop}>Stop<//>
        <span class="soft small">Finished links stay. If you leave this page, import the document again to continue. No link is created twice.</span></div>`
    }
    ${
      phase === 'stopped' &&
      html`<${Notice} tone=${fault === undefined ? 'warn' : 'bad'} title=${fault?.message ?? 'You stopped the import.'} requestId=${fault?.requestId} isAlert=${true}>
        <p>Links that were already created are kept. Trying again creates only the missing ones.</p>
        <p><${Button} size="small" onClick=${job.make}>Continue<//></p>
      <//>`
    }
    ${
      phase === 'done' &&
      (failed > 0
        ? html`<${Notice} tone="warn" title=${`${failed === 1 ? 'One operation' : `${failed} operations`} failed`} isAlert=${true}>
            <p>The list below shows the reasons. Fix these problems, then try again. Existing links are kept.</p>
            <p class="row"><${Button} size="small" onClick=${job.make}>Try again<//><a href="/dashboard/links">Go to your links</a></p>
          <//>`
        : html`<${Notice} tone="good" title="The document was imported" isAlert=${true}><p><a href="/dashboard/links">Go to your links</a></p><//>`)
    }
    <${Report} rows=${rows} />
  </section>`
}

const links = (count: number): string => (count === 1 ? '1 link' : `${count} links`)

interface DocumentFieldProps {
  readonly onInput: (document: string) => void
  readonly error?: string | undefined
}

/** Takes a document as a local file or as text. Only the browser reads it until the seller confirms. */
function DocumentField({ onInput, error }: DocumentFieldProps) {
  const [position, setPosition] = useState(0)
  const [texts, setTexts] = useState(['', ''])
  /** Size of the chosen file, in words. */
  const [file, setFile] = useState<string>()
  const [fault, setFault] = useState<string>()
  const take = (at: number, text: string) => {
    setTexts((before) => before.with(at, text))
    onInput(text)
  }
  const choose = async (event: Event) => {
    const [given] = (event.target as unknown as { files: readonly File[] }).files
    if (given === undefined) return
    setFault(undefined)
    setFile(undefined)
    if (given.size > MAX_DOCUMENT_BYTES) {
      take(0, '')
      return setFault(
        `${given.name} is ${megabytes(given.size)}, and the limit is ${megabytes(MAX_DOCUMENT_BYTES)}. Split the document and import the parts.`,
      )
    }
    try {
      take(0, await given.text())
      setFile(given.size < 1e5 ? `${Math.ceil(given.size / 1e3)} kB.` : `${megabytes(given.size)}.`)
    } catch {
      setFault(`${given.name} can’t be read. Choose the file again.`)
    }
  }
  const wrong = fault ?? error
  const fromFile = html`<div class="field">
    <label for="document-file">OpenAPI document</label>
    <input class="input shell-file" id="document-file" type="file" accept=".yaml,.yml,.json,application/json,application/yaml"
      aria-describedby="document-file-hint" aria-invalid=${wrong && 'true'} onChange=${choose} />
    <p class="hint" id="document-file-hint" aria-live="polite">${file ?? 'Version 3.0 or 3.1, YAML or JSON, at most 16 MB. If the document is on the web, download it first.'}</p>
    ${wrong && html`<p class="error" role="alert">${wrong}</p>`}
  </div>`
  const fromText = html`<${Field} id="document-text" label="OpenAPI document" rows=${10} value=${texts[1]} onInput=${(text: string) => take(1, text)}
    class="input mono shell-document" spellcheck=${false} autocapitalize="none" hint="Version 3.0 or 3.1, YAML or JSON." error=${position === 1 ? error : undefined} />`
  const change = (at: number) => {
    setPosition(at)
    onInput(texts[at]!)
  }
  return html`<${Tabs} id="from" label="Where the document is" chosen=${position} onChange=${change}
    tabs=${[
      { title: 'A file', content: position === 0 && fromFile },
      { title: 'Text', content: position === 1 && fromText },
    ]} />`
}
