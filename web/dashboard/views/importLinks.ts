import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Card } from '../../components/card.ts'
import { Field } from '../../components/field.ts'
import { Notice } from '../../components/notice.ts'
import { Select } from '../../components/select.ts'
import { Skeleton } from '../../components/skeleton.ts'
import { Title } from '../../desk/title.ts'
import { html } from '../../html.ts'
import { DocumentField } from '../import/documentField.ts'
import { type ImportFields, importBody } from '../import/importBody.ts'
import { type ImportJob, useImport } from '../import/importJob.ts'
import { Report, summaryOf } from '../import/report.ts'

const blank: ImportFields = {
  ...{ document: '', price: '0.01', rules: '', as: 'each', visibility: 'listed' },
  ...{ server: '', source: '', headers: '' },
}

/** Fields of the form by what the service calls them. */
const served: Readonly<Record<string, keyof ImportFields>> = {
  ...{ document: 'document', price: 'price', prices: 'rules', server: 'server', source: 'source' },
  upstreamHeaders: 'headers',
}

/** Links from an OpenAPI document: what would become of each operation is looked at first, and made then. */
export function ImportLinks() {
  const job = useImport()
  const [fields, setFields] = useState(blank)
  const [errors, setErrors] = useState<Readonly<Partial<Record<keyof ImportFields, string>>>>({})
  const isRunning = job.phase === 'looking' || job.phase === 'making'
  const set = (name: keyof ImportFields) => (value: string) => {
    setFields((before) => ({ ...before, [name]: value }))
    setErrors((before) => ({ ...before, [name]: undefined }))
    // What was foretold is no longer what would be made.
    if (!isRunning) job.forget()
  }
  const refused = refusedOf(job)
  const at = (name: Exclude<keyof ImportFields, 'as' | 'visibility' | 'document'>) => ({
    ...{ id: name, value: fields[name], onInput: set(name), error: errors[name] ?? refused[name] },
  })
  const look = (event: Event) => {
    event.preventDefault()
    if (isRunning) return
    const read = importBody(fields)
    setErrors(read.errors)
    if (Object.keys(read.errors).length === 0) job.look(read.body)
  }
  const hasHidden = (['server', 'source', 'headers'] as const).some((name) => errors[name] ?? refused[name])
  return html`<div class="stack">
    <${Title} from=${{ href: '/dashboard/links', title: 'Links' }}>Import an OpenAPI document<//>
    <${Card}>
      <form class="stack desk-form" onSubmit=${look} novalidate>
        <fieldset class="desk-fields stack" disabled=${isRunning}>
          <legend class="visually-hidden">What is imported</legend>
          <${DocumentField} onInput=${set('document')} error=${errors.document ?? refused.document} />
          <${Select} id="as" label="What becomes a link" value=${fields.as} onChange=${set('as')}
            options=${[
              { value: 'each', label: 'Each operation' },
              { value: 'one', label: 'The whole API, with all below its address' },
            ]} />
          <${Field} ...${at('price')} label="Price of one call, USDC" inputmode="decimal"
            hint="Where neither a line below nor x-price in the document names one. 0 is free; empty leaves such operations out." />
          ${
            fields.as === 'each' &&
            html`<${Field} ...${at('rules')} label="Other prices" rows=${3} class="input mono" spellcheck=${false} autocapitalize="none"
              placeholder=${'POST /render = 0.05\nDELETE * = none'} hint="One a line: an operation, a path or an operationId, with * for all that begin so. none is not for sale." />`
          }
          <${Select} id="visibility" label="Who finds the links" value=${fields.visibility} onChange=${set('visibility')}
            options=${[
              { value: 'listed', label: 'Everybody, in the marketplace' },
              { value: 'unlisted', label: 'Who knows their address' },
              { value: 'as it was', label: 'As it was; new ones are unlisted' },
            ]} />
          <details class="desk-more" open=${hasHidden}>
            <summary>More</summary>
            <div class="stack">
              <${Field} ...${at('server')} label="Address of your API" type="url" inputmode="url" placeholder="https://api.example.com/v1" hint="The document’s first server when empty." />
              <${Field} ...${at('source')} label="Your name for the document" hint="By it the next import knows the links again. Made from the title when empty." autocapitalize="none" />
              <${Field} ...${at('headers')} label="Headers for your API" rows=${2} class="input mono" spellcheck=${false} autocapitalize="none" autocomplete="off"
                hint="Sent with every call, one a line: X-Key: value. Kept encrypted, never shown again." />
            </div>
          </details>
        </fieldset>
        ${
          job.phase === 'none' &&
          job.fault !== undefined &&
          html`<${Notice} tone="bad" title=${job.fault.message} requestId=${job.fault.requestId} isAlert=${true} />`
        }
        <div class="row"><${Button} kind=${job.phase === 'none' || job.phase === 'looking' ? 'primary' : 'plain'} type="submit" isBusy=${job.phase === 'looking'}>Look what it makes<//>
          <${Button} kind="quiet" href="/dashboard/links">Cancel<//></div>
        <p class="soft small">Nothing is made before you have seen it.</p>
      </form>
    <//>
    ${job.phase === 'looking' && html`<${Skeleton} count=${4} />`}
    ${job.phase !== 'none' && job.phase !== 'looking' && html`<${Outcome} job=${job} />`}
  </div>`
}

/** What the service says of fields of the form. */
function refusedOf({ phase, fault }: ImportJob): Partial<Record<keyof ImportFields, string>> {
  if (phase !== 'none' || fault === undefined) return {}
  return Object.fromEntries(
    Object.entries(fault.details).flatMap(([path, message]) => {
      const name = served[path.split(/[.[/]/)[0]!]
      return name === undefined ? [] : [[name, message]]
    }),
  )
}

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
        <span class="soft small">What is made stays. You may leave and import the document again: nothing is made twice.</span></div>`
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
