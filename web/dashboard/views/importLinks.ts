import { useEffect, useRef } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Card } from '../../components/card.ts'
import { Field } from '../../components/field.ts'
import { Notice } from '../../components/notice.ts'
import { Select } from '../../components/select.ts'
import { Skeleton } from '../../components/skeleton.ts'
import { addressWords, type FormWords, refuse, useForm } from '../../desk/form.ts'
import { useAction } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { useUnsaved } from '../../desk/unsaved.ts'
import { html } from '../../html.ts'
import { DocumentField } from '../import/documentField.ts'
import { type ImportFields, importBody } from '../import/importBody.ts'
import { type ImportJob, useImport } from '../import/importJob.ts'
import { Report, summaryOf } from '../import/report.ts'

const blank: ImportFields = {
  ...{ document: '', price: '0.01', rules: '', as: 'each', visibility: 'listed' },
  ...{ server: '', source: '', headers: '' },
}

/** By what the service calls the fields. */
const words: FormWords = {
  document: { expected: 'Choose a file, or paste the document.' },
  price: { expected: 'Enter a price in USDC, such as 0.01; 0 is free.' },
  prices: { expected: 'Write one price a line, such as POST /render = 0.05.' },
  server: addressWords('Enter the address of your API, such as https://api.example.com/v1.'),
  source: { expected: 'Enter a name of a-z, 0-9 and -.' },
  upstreamHeaders: { expected: 'Write one header a line, such as X-Key: value.' },
}

/** Links from an OpenAPI document: what would become of each operation is looked at first, and made then. */
export function ImportLinks() {
  const job = useImport()
  const action = useAction()
  const form = useForm(blank, action, words)
  const { fields, errorAt } = form
  useUnsaved(isOutstanding(job))
  const isRunning = job.phase === 'looking' || job.phase === 'making'
  const set = (name: keyof ImportFields) => (value: string) => {
    form.set({ [name]: value })
    // What was foretold is no longer what would be made.
    if (!isRunning) job.forget()
  }
  const at = (name: Exclude<keyof ImportFields, 'as' | 'visibility' | 'document'>, path?: string) => ({
    ...{ ...form.at(name, path), onInput: set(name) },
  })
  const look = form.submit(async (fields) => {
    const { body, errors } = importBody(fields)
    if (Object.keys(errors).length > 0) throw refuse(errors)
    await job.look(body)
  })
  return html`<div class="stack">
    <${Title} from=${{ href: '/dashboard/links', title: 'Links' }}>Import an OpenAPI document<//>
    <${Card}>
      <form class="stack desk-form" ref=${form.ref} onSubmit=${look} novalidate>
        <fieldset class="desk-fields stack" disabled=${isRunning}>
          <legend class="visually-hidden">What is imported</legend>
          <${DocumentField} onInput=${set('document')} error=${form.at('document').error} />
          <${Select} id="as" label="What becomes a link" value=${fields.as} onChange=${set('as')}
            options=${[
              { value: 'each', label: 'Each operation' },
              { value: 'one', label: 'The whole API, with all below its address' },
            ]} />
          <${Field} ...${at('price')} label="Price of one call, USDC" inputmode="decimal"
            hint="Where neither a line below nor x-price in the document names one. 0 is free; empty leaves such operations out." />
          ${
            fields.as === 'each' &&
            html`<${Field} ...${at('rules', 'prices')} label="Other prices" rows=${3} class="input mono" spellcheck=${false} autocapitalize="none"
              placeholder=${'POST /render = 0.05\nDELETE * = none'} hint="One a line: an operation, a path or an operationId, with * for all that begin so. none is not for sale." />`
          }
          <${Select} id="visibility" label="Who finds the links" value=${fields.visibility} onChange=${set('visibility')}
            options=${[
              { value: 'listed', label: 'Everybody, in the marketplace' },
              { value: 'unlisted', label: 'Who knows their address' },
              { value: 'as it was', label: 'As it was; new ones are unlisted' },
            ]} />
          <details class="desk-more" open=${['server', 'source', 'upstreamHeaders'].some(errorAt)}>
            <summary>More</summary>
            <div class="stack">
              <${Field} ...${at('server')} label="Address of your API" type="url" inputmode="url" placeholder="https://api.example.com/v1" hint="The document’s first server when empty." />
              <${Field} ...${at('source')} label="Your name for the document" hint="By it the next import knows the links again. Made from the title when empty." autocapitalize="none" />
              <${Field} ...${at('headers', 'upstreamHeaders')} label="Headers for your API" rows=${2} class="input mono" spellcheck=${false} autocapitalize="none" autocomplete="off"
                hint="Sent with every call, one a line: X-Key: value. Kept encrypted, never shown again." />
            </div>
          </details>
        </fieldset>
        ${form.line}
        <div class="row"><${Button} kind=${job.phase === 'none' || job.phase === 'looking' ? 'primary' : 'plain'} type="submit" isBusy=${job.phase === 'looking'}>Look what it makes<//>
          <${Button} kind="quiet" href="/dashboard/links">Cancel<//></div>
        <p class="soft small">Nothing is made before you have seen it.</p>
      </form>
    <//>
    ${job.phase === 'looking' && html`<${Skeleton} count=${4} />`}
    ${job.phase !== 'none' && job.phase !== 'looking' && html`<${Outcome} job=${job} />`}
  </div>`
}

/** Links were foretold and are not made yet, or not all of them. */
const isOutstanding = ({ phase, rows }: ImportJob): boolean =>
  phase === 'making' ||
  phase === 'stopped' ||
  (phase === 'looked' && rows.some(({ action }) => action === 'create' || action === 'change'))

const titles: Readonly<Record<string, string>> = {
  looked: 'What it would make',
  making: 'Making the links',
  stopped: 'Not all is done yet',
  done: 'Done',
}

function Outcome({ job }: { readonly job: ImportJob }) {
  const { phase, rows, done, total, source, server, otherServers, fault } = job
  const count = (action: string) => rows.filter((row) => row.action === action).length
  const [toMake, toChange, failed] = [count('create'), count('change'), count('failed')]
  const work = [
    toMake > 0 && `Make ${links(toMake)}`,
    toChange > 0 && `${toMake > 0 ? 'change' : 'Change'} ${links(toChange)}`,
  ]
  const heading = useRef<{ focus(): void }>(null)
  // It appears below the form: it is shown, and read from there.
  useEffect(() => heading.current?.focus(), [])
  return html`<section class="stack" aria-label="What becomes of it">
    <h2 class="desk-heading" tabindex="-1" ref=${heading}>${titles[phase]}</h2>
    <p aria-live="polite">${summaryOf(rows)}.</p>
    <p class="soft small">The document is called <strong>${source}</strong>, the API is at <span class="desk-address">${server}</span>.
      ${otherServers.length > 0 && `It also names ${otherServers.join(', ')}: choose under More.`}</p>
    ${
      phase === 'looked' &&
      (work.some(Boolean)
        ? html`<div class="row"><${Button} kind="primary" onClick=${job.make}>${work.filter(Boolean).join(', ')}<//>
            <span class="soft small">An API that is paid for is asked first whether it answers.</span></div>`
        : html`<${Notice} title="There is nothing to make"><p>Your links are as the document says, or it has nothing that can be sold.</p><//>`)
    }
    ${
      (phase === 'making' || phase === 'stopped') &&
      html`<div class="desk-progress">
        <label for="progress">${done.toLocaleString('en')} of ${total.toLocaleString('en')} operations</label>
        <progress id="progress" max=${total} value=${done}></progress>
      </div>`
    }
    ${
      phase === 'making' &&
      html`<div class="row"><${Button} onClick=${job.stop}>Stop<//>
        <span class="soft small">What is made stays. If you leave, import the document again: nothing is made twice.</span></div>`
    }
    ${
      phase === 'stopped' &&
      html`<${Notice} tone=${fault === undefined ? 'warn' : 'bad'} title=${fault?.message ?? 'You stopped it.'} requestId=${fault?.requestId} isAlert=${true}>
        <p>What was made stays, and is not made again.</p>
        <p><${Button} size="small" onClick=${job.make}>Go on<//></p>
      <//>`
    }
    ${
      phase === 'done' &&
      (failed > 0
        ? html`<${Notice} tone="warn" title=${`${failed === 1 ? 'One operation' : `${failed} operations`} failed`} isAlert=${true}>
            <p>The list says why. Mend it and try again: what is there already is kept.</p>
            <p class="row"><${Button} size="small" onClick=${job.make}>Try again<//><a href="/dashboard/links">To the links</a></p>
          <//>`
        : html`<${Notice} tone="good" title="The document is imported" isAlert=${true}><p><a href="/dashboard/links">To the links</a></p><//>`)
    }
    <${Report} rows=${rows} />
  </section>`
}

const links = (count: number): string => (count === 1 ? '1 link' : `${count} links`)
