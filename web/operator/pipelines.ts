import { useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Badge, Card, Empty, Notice } from '../components/card.ts'
import { Field } from '../components/field.ts'
import { type Children, html } from '../html.ts'
import type { ApiClient } from '../shell/api.ts'
import { Title } from '../shell/frame.ts'
import { Load, useLoad } from '../shell/load.ts'

interface EntryResponse {
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

interface PipelineResponse {
  readonly link: string
  readonly title: string
  readonly price: string
  readonly settle: 'after' | 'before'
  readonly isSuspended: boolean
  readonly steps: readonly { readonly phase: string; readonly plugin: string }[]
  readonly deliver: readonly string[]
  readonly log: readonly string[]
  readonly entries: readonly EntryResponse[]
  readonly problems: readonly string[]
}

export interface PipelinesProps {
  readonly api: ApiClient
  /** Address of a link. Empty before a search. */
  readonly link: string
  readonly go: (path: string) => void
}

/** The plugins that run for a link, with their configuration entries. */
export function Pipelines({ api, link, go }: PipelinesProps) {
  const [text, setText] = useState(link)
  const find = (event: Event) => {
    event.preventDefault()
    go(`/operator/programs?link=${encodeURIComponent(text.trim())}`)
  }
  return html`<div class="stack">
    <${Title}>Pipelines<//>
    <form class="shell-search" role="search" onSubmit=${find}>
      <${Field} id="link" label="Link" value=${text} required maxlength="2048" placeholder="alice/weather" autocomplete="off" spellcheck=${false} onInput=${setText} />
      <${Button} type="submit">Show<//>
    </form>
    ${
      link === ''
        ? html`<${Empty} title="Which link?"><p>Enter the seller and the slug, or the address of the link. This page then shows the plugins that each call runs through, in order.</p><//>`
        : html`<${Found} api=${api} link=${link} />`
    }
  </div>`
}

function Found({ api, link }: Omit<PipelinesProps, 'go'>) {
  const program = useLoad(
    () => api<PipelineResponse>('GET', `/api/operator/program?link=${encodeURIComponent(link)}`),
    [link],
  )
  // An unknown link is an empty result and not an error of the page.
  if (program.fault?.status === 404)
    return html`<${Empty} title="No such link"><p>Expected a seller and a slug, such as <code>alice/weather</code>, or the address that buyers call.</p><//>`
  return html`<${Load} of=${program}>${(data: PipelineResponse) => html`<${Program} program=${data} />`}<//>`
}

function Program({ program }: { readonly program: PipelineResponse }) {
  const { title, link, price, settle, steps, deliver, log, entries, problems, isSuspended } = program
  const isFree = !/[1-9]/.test(price)
  return html`<div class="stack">
    <${Card} title=${html`<span dir="auto">${title}</span>`} actions=${html`<span class="row">${isSuspended && html`<${Badge} tone="warn">Suspended<//>`}<${Badge}>${isFree ? 'Free' : `${price} USDC ${settle === 'after' ? 'after the response' : 'before the call'}`}<//></span>`}><div class="stack">
      <p><a class="mono operator-address" href=${`/${link}`}>${link}</a></p>
      ${problems.length > 0 && html`<${Notice} tone="bad" title="Calls of this link are refused">${problems.map((problem) => html`<p>${problem}</p>`)}<//>`}
      <ol class="program" aria-label="Each call runs through">
        ${steps.map(({ phase, plugin }) => html`<${Step} phase=${phase}>${plugin}<//>`)}
      </ol>
      ${
        deliver.length + log.length > 0 &&
        html`<p class="soft">After the response:</p>
        <ol class="program after" aria-label="After the response">
          ${deliver.map((plugin) => html`<${Step} phase="deliver">${plugin}<//>`)}
          ${log.map((plugin) => html`<${Step} phase="log">${plugin}<//>`)}
        </ol>`
      }
    </div><//>
    <${Card} title="Configuration entries"><div class="stack">
      <p class="soft">The plugins that run for this link, in the order in which they run.</p>
      <ul class="shell-list">${entries.map((entry) => html`<${Entry} entry=${entry} />`)}</ul>
    </div><//>
  </div>`
}

const Step = ({ phase, children }: { readonly phase: string; readonly children: Children }) =>
  html`<li><span class="soft">${phase}</span><span>${children}</span></li>`

function Entry({ entry: { plugin, phases, links, paid, settings } }: { readonly entry: EntryResponse }) {
  const when = [
    links === null ? 'every link' : `links ${links.join(', ')}`,
    ...(paid === null ? [] : [paid ? 'paid only' : 'free only']),
  ]
  return html`<li class="stack">
    <div class="program-entry"><strong>${plugin}</strong> <span class="soft">${[...new Set(phases)].join(', ')}</span></div>
    <p class="soft">${links === null && paid === null ? 'Runs for every link.' : html`Runs for ${when.join(', ')}, as set in <code>when</code>.`}</p>
    ${
      settings.length > 0 &&
      html`<details class="shell-more"><summary>${settings.length === 1 ? 'One setting' : `${settings.length} settings`}${set(settings)}</summary>
        <dl class="shell-facts">${settings.map(
          ({ name, value, isDefault }) => html`<div><dt class="mono">${name}</dt>
            <dd><span class="mono">${JSON.stringify(value)}</span>${isDefault && html` <span class="soft">default</span>`}</dd></div>`,
        )}</dl>
      </details>`
    }
  </li>`
}

function set(settings: EntryResponse['settings']): string {
  const count = settings.filter(({ isDefault }) => !isDefault).length
  return count === 0 ? ', all default' : `, ${count} set in the configuration`
}
