import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from '../../../../web/components/button.ts'
import { Badge, Empty, Notice, Skeleton } from '../../../../web/components/card.ts'
import { Field, Select } from '../../../../web/components/field.ts'
import { html } from '../../../../web/html.ts'
import { Title } from '../../../../web/shell/frame.ts'
import { call } from '../session.ts'
import { dayOf, Moment, toneOf } from '../words.ts'
import { actions, type Entry, outcomes, wordsOfEntry } from './activityWords.ts'
import { everything, type Filter, useLog } from './log.ts'

const TYPING_MS = 250

/** The log: all requests and their outcomes, newest first, grouped by day. */
export function Activity() {
  const [filter, setFilter] = useState<Filter>(everything)
  const [text, setText] = useState('')
  const [names, setNames] = useState<readonly string[]>([])
  const log = useLog(filter)
  useEffect(() => {
    call<{ agents: readonly { name: string }[] }>('GET', '/agents').then(
      ({ agents }) => setNames(agents.map(({ name }) => name)),
      () => {},
    )
  }, [])
  useEffect(() => {
    const timer = setTimeout(
      () => setFilter((now) => (now.text === text.trim() ? now : { ...now, text: text.trim() })),
      TYPING_MS,
    )
    return () => clearTimeout(timer)
  }, [text])
  const choice = (
    name: 'agent' | 'action' | 'status',
    label: string,
    any: string,
    all: readonly (readonly [string, string])[],
  ) =>
    html`<${Select}
      id=${name} label=${label} value=${filter[name]} onChange=${(value: string) => setFilter({ ...filter, [name]: value })}
      options=${[['', any] as const, ...all].map(([value, title]) => ({ value, label: title }))}
    />`
  const showAll = () => {
    setText('')
    setFilter(everything)
    document.getElementById('agent')?.focus()
  }
  const days = Map.groupBy(log.entries, ({ timestamp }) => dayOf(timestamp))
  return html`<div class="stack">
    <${Verify} />
    <div class="vault-filters" role="search" aria-label="Filter">
      ${choice(
        'agent',
        'Who',
        'Anyone',
        [...new Set(['owner', 'vault', ...names])].map((name) => [name, name]),
      )}
      ${choice('action', 'What', 'Anything', Object.entries(actions))}
      ${choice('status', 'Outcome', 'Any', Object.entries(outcomes))}
      <${Field} id="text" label="Text" type="search" placeholder="Address, scope, note …" value=${text} onInput=${setText} />
    </div>
    ${[...days].map(
      ([day, entries]) => html`<section class="stack" key=${day} aria-label=${day}>
        <h2 class="vault-day">${day}</h2>
        <ul class="shell-list card">${entries.map((entry) => html`<${Row} key=${entry.details.seq} entry=${entry} />`)}</ul>
      </section>`,
    )}
    ${log.isLoading && html`<${Skeleton} isTall=${true} />`}
    ${log.problem !== undefined && html`<${Notice} tone="bad" title="The data could not be loaded" isAlert=${true}><p>${log.problem}</p><p><${Button} size="small" onClick=${log.more}>Try again<//></p><//>`}
    ${!log.isLoading && log.problem === undefined && html`<${Below} log=${log} isFiltered=${Object.values(filter).some((value) => value !== '')} onShowAll=${showAll} />`}
  </div>`
}

interface BelowProps {
  readonly log: ReturnType<typeof useLog>
  readonly isFiltered: boolean
  readonly onShowAll: () => void
}

function Below({ log, isFiltered, onShowAll }: BelowProps) {
  const isEmpty = log.entries.length === 0
  if (log.hasMore)
    return html`<div class="row">${isEmpty && html`<p class="soft">No match among the newer entries.</p>`}<${Button} onClick=${log.more}>Show older<//></div>`
  if (!isEmpty) return html`<p class="soft small">End of the log.</p>`
  return isFiltered
    ? html`<${Empty} title="Nothing here"><p>No entry matches the filter.</p><${Button} onClick=${onShowAll}>Show everything<//><//>`
    : html`<${Empty} title="Nothing here"><p>All agent requests and all your decisions are logged here.</p><//>`
}

interface Verification {
  readonly ok: boolean
  readonly entries: number
  readonly firstBad: number
  readonly reason: string
}

/** The title of the view, and the result of verifying the log. */
function Verify() {
  const [toast, say] = useState<{ readonly words: string; readonly tone: 'plain' | 'good' | 'bad' }>()
  const isBusy = useRef(false)
  const verify = async () => {
    if (isBusy.current) return
    isBusy.current = true
    say({ words: 'Reading the whole log…', tone: 'plain' })
    try {
      const { ok, entries, firstBad, reason } = await call<Verification>('GET', '/activity/verify')
      const changed = `The log was changed: entry ${firstBad} does not verify (${reason}).`
      say(
        ok
          ? { words: `All ${entries} entries are unchanged.`, tone: 'good' }
          : { words: changed, tone: 'bad' },
      )
    } catch (error) {
      say({ words: (error as Error).message, tone: 'bad' })
    }
    isBusy.current = false
  }
  return html`<${Title} actions=${html`<${Button} onClick=${verify}>Verify log<//>`}>Activity<//>
    <div role="status">${toast && html`<${Notice} tone=${toast.tone} title=${toast.words} />`}</div>`
}

function Row({ entry }: { readonly entry: Entry }) {
  const { who, what, about, outcome, why, more, claimed, found } = wordsOfEntry(entry)
  const isShortSum = entry.details['amount'] != null && about.length < 24
  return html`<li class="vault-row">
    <div>
      <strong>${who}</strong>${` ${what}`}${about !== '' && html`<span>, <bdi class=${isShortSum ? 'number' : undefined}>${about}</bdi></span>`}
      ${why !== '' && html`<div>${why}</div>`}
      ${
        (claimed !== null || found !== null) &&
        html`<dl class="vault-lie">
          ${claimed !== null && html`<dt>The agent said</dt><dd><bdi>${claimed}</bdi></dd>`}
          ${found !== null && html`<dt>The vault found</dt><dd class="wrong"><bdi>${found}</bdi></dd>`}
        </dl>`
      }
      ${more.length > 0 && html`<div class="soft small">${more.map((one, i) => html`${i > 0 && ' · '}<bdi>${one}</bdi>`)}</div>`}
    </div>
    <div class="vault-end"><${Badge} tone=${toneOf(entry.status)}>${outcome}<//><span class="soft small"><${Moment} at=${entry.timestamp} /></span></div>
  </li>`
}
