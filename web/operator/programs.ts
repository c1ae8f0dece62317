import { useState } from 'preact/hooks'
import { Badge } from '../components/badge.ts'
import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { Empty } from '../components/empty.ts'
import { Field } from '../components/field.ts'
import { Notice } from '../components/notice.ts'
import type { ApiClient } from '../desk/api.ts'
import { Load, useLoad } from '../desk/load.ts'
import { Title } from '../desk/title.ts'
import { type Children, html } from '../html.ts'

interface EntryAnswer {
  readonly plugin: string
  readonly phases: readonly string[]
  readonly links: readonly string[] | null
  readonly paid: boolean | null
  readonly settings: readonly {
    readonly name: string
    readonly value: unknown
    readonly isDefault: boolean
  }[]
}

interface ProgramAnswer {
  readonly link: string
  readonly title: string
  readonly price: string
  readonly settle: 'after' | 'before'
  readonly isSuspended: boolean
  readonly steps: readonly { readonly phase: string; readonly plugin: string }[]
  readonly deliver: readonly string[]
  readonly log: readonly string[]
  readonly entries: readonly EntryAnswer[]
  readonly problems: readonly string[]
}

export interface ProgramsProps {
  readonly ask: ApiClient
  /** An address of a link; empty while none is looked for. */
  readonly link: string
  readonly go: (path: string) => void
}

/** What runs for a link, and by which entries of the configuration. */
export function Programs({ ask, link, go }: ProgramsProps) {
  const [text, setText] = useState(link)
  const find = (event: Event) => {
    event.preventDefault()
    go(`/operator/programs?link=${encodeURIComponent(text.trim())}`)
  }
  return html`<div class="stack">
    <${Title}>Programs<//>
    <form class="desk-search" role="search" onSubmit=${find}>
      <${Field} id="link" label="Link" value=${text} required maxlength="2048" placeholder="alice/weather" autocomplete="off" spellcheck=${false} onInput=${setText} />
      <${Button} type="submit">Show<//>
    </form>
    ${
      link === ''
        ? html`<${Empty} title="Which link?"><p>Seller and slug, or the address that is called. Here stands what each call of it runs through, in order.</p><//>`
        : html`<${Found} ask=${ask} link=${link} />`
    }
  </div>`
}

function Found({ ask, link }: Omit<ProgramsProps, 'go'>) {
  const program = useLoad(
    () => ask<ProgramAnswer>('GET', `/api/operator/program?link=${encodeURIComponent(link)}`),
    [link],
  )
  // What nobody sells is no fault of the page.
  if (program.fault?.status === 404)
    return html`<${Empty} title="No link is called there"><p>Expected a seller and a slug, such as <code>alice/weather</code>, or the address of its calls.</p><//>`
  return html`<${Load} of=${program}>${(data: ProgramAnswer) => html`<${Program} program=${data} />`}<//>`
}

function Program({ program }: { readonly program: ProgramAnswer }) {
  const { title, link, price, settle, steps, deliver, log, entries, problems, isSuspended } = program
  const isFree = !/[1-9]/.test(price)
  return html`<div class="stack">
    <${Card} title=${html`<span dir="auto">${title}</span>`} actions=${html`<span class="row">${isSuspended && html`<${Badge} tone="warn">Suspended<//>`}<${Badge}>${isFree ? 'Free' : `${price} USDC, charged ${settle === 'after' ? 'after the answer' : 'first'}`}<//></span>`}><div class="stack">
      <p><a class="mono operator-address" href=${`/${link}`}>${link}</a></p>
      ${problems.length > 0 && html`<${Notice} tone="bad" title="Its calls are refused">${problems.map((problem) => html`<p>${problem}</p>`)}<//>`}
      <ol class="program" aria-label="Each call runs through">
        ${steps.map(({ phase, plugin }) => html`<${Step} phase=${phase}>${plugin}<//>`)}
      </ol>
      ${
        deliver.length + log.length > 0 &&
        html`<p class="soft">After the answer:</p>
        <ol class="program after" aria-label="After the answer">
          ${deliver.map((plugin) => html`<${Step} phase="deliver">${plugin}<//>`)}
          ${log.map((plugin) => html`<${Step} phase="log">${plugin}<//>`)}
        </ol>`
      }
    </div><//>
    <${Card} title="Where it comes from"><div class="stack">
      <p class="soft">The entries of the configuration’s list of plugins that run for this link, in their order.</p>
      <ul class="desk-list">${entries.map((entry) => html`<${Entry} entry=${entry} />`)}</ul>
    </div><//>
  </div>`
}

const Step = ({ phase, children }: { readonly phase: string; readonly children: Children }) =>
  html`<li><span class="soft">${phase}</span><span>${children}</span></li>`

function Entry({ entry: { plugin, phases, links, paid, settings } }: { readonly entry: EntryAnswer }) {
  const when = [
    links === null ? 'every link' : `links ${links.join(', ')}`,
    ...(paid === null ? [] : [paid ? 'paid ones' : 'free ones']),
  ]
  return html`<li class="stack">
    <div class="program-entry"><strong>${plugin}</strong> <span class="soft">${[...new Set(phases)].join(', ')}</span></div>
    <p class="soft">${links === null && paid === null ? 'Runs for every link.' : html`Runs for ${when.join(', ')}: its <code>when</code>.`}</p>
    ${
      settings.length > 0 &&
      html`<details class="desk-more"><summary>${settings.length === 1 ? 'One setting' : `${settings.length} settings`}${set(settings)}</summary>
        <dl class="desk-facts">${settings.map(
          ({ name, value, isDefault }) => html`<div><dt class="mono">${name}</dt>
            <dd><span class="mono">${JSON.stringify(value)}</span>${isDefault && html` <span class="soft">default</span>`}</dd></div>`,
        )}</dl>
      </details>`
    }
  </li>`
}

function set(settings: EntryAnswer['settings']): string {
  const count = settings.filter(({ isDefault }) => !isDefault).length
  return count === 0 ? ', all as by default' : `, ${count} of them set in the configuration`
}
