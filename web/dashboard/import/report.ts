import { useState } from 'preact/hooks'
import { Amount } from '../../components/amount.ts'
import { Badge } from '../../components/badge.ts'
import { Button } from '../../components/button.ts'
import { Select } from '../../components/select.ts'
import { Table } from '../../components/table.ts'
import type { Worded } from '../../desk/words.ts'
import { html } from '../../html.ts'
import { keyOf, type OperationAnswer, type ReportRow } from './importJob.ts'

type Action = OperationAnswer['action']

const foretold: Readonly<Record<Action, Worded>> = {
  create: { words: 'To be made', tone: 'info' },
  change: { words: 'To be changed', tone: 'info' },
  keep: { words: 'As before', tone: 'plain' },
  left_out: { words: 'Left out', tone: 'plain' },
  gone: { words: 'Not in it any more', tone: 'warn' },
  failed: { words: 'Can’t be made', tone: 'bad' },
}

const done: Readonly<Record<Action, Worded>> = {
  ...foretold,
  create: { words: 'Made', tone: 'good' },
  change: { words: 'Changed', tone: 'good' },
  failed: { words: 'Failed', tone: 'bad' },
}

const wordsOf = ({ action, isDone }: ReportRow): Worded => (isDone ? done : foretold)[action]

const fields: Readonly<Record<string, string>> = {
  ...{ url: 'address', inputSchema: 'input', outputExample: 'example', isPublic: 'who finds it' },
  upstreamHeaders: 'headers',
}

/** Rows that are drawn before somebody asks for more. */
const PER_PAGE = 100

/** How many there are of each, in words: `12 made, 1 left out`. */
export function summaryOf(rows: readonly ReportRow[]): string {
  const counts = Map.groupBy(rows, (row) => wordsOf(row).words)
  return [...counts]
    .map(([words, { length }]) => `${length} ${words[0]!.toLowerCase()}${words.slice(1)}`)
    .join(', ')
}

/** What becomes of each operation, and why. */
export function Report({ rows }: { readonly rows: readonly ReportRow[] }) {
  const [chosen, setChosen] = useState('')
  const [count, setCount] = useState(PER_PAGE)
  const kinds = [...new Set(rows.map((row) => wordsOf(row).words))]
  const kind = kinds.includes(chosen) ? chosen : ''
  const found = kind === '' ? rows : rows.filter((row) => wordsOf(row).words === kind)
  const columns = [
    {
      ...{ key: 'operation', title: 'Operation' },
      cell: ({
        operation,
        title,
        linkId,
      }: ReportRow) => html`<span class="desk-main-cell desk-text mono">${operation}</span>
        ${title !== null && html`<span class="soft small desk-text" dir="auto">${linkId === null ? title : html`<a href=${`/dashboard/links/${linkId}`}>${title}</a>`}</span>`}`,
    },
    {
      ...{ key: 'action', title: 'What becomes of it' },
      cell: (row: ReportRow) => html`<${Badge} tone=${wordsOf(row).tone}>${wordsOf(row).words}<//>`,
    },
    {
      ...{ key: 'price', title: 'Price', align: 'end' },
      cell: ({ price }: ReportRow) => {
        if (price === null) return html`<span class="soft">–</span>`
        return /[1-9]/.test(price) ? html`<${Amount} value=${price} />` : 'Free'
      },
    },
    {
      ...{ key: 'note', title: 'Why' },
      cell: ({ changes, reason }: ReportRow) => html`<div class="desk-note">
        ${changes.length > 0 && html`<span>Changes: ${changes.map((name) => fields[name] ?? name).join(', ')}.</span> `}
        ${reason !== null && html`<span dir="auto">${reason}</span>`}
      </div>`,
    },
  ]
  return html`<div class="stack">
    ${
      kinds.length > 1 &&
      html`<div class="desk-filters"><${Select} id="kind" label="Show" value=${kind} onChange=${setChosen}
        options=${[{ value: '', label: `All ${rows.length}` }, ...kinds.map((one) => ({ value: one, label: one }))]} /></div>`
    }
    <${Table} caption="Operations" columns=${columns} rows=${found.slice(0, count)} keyOf=${keyOf} />
    ${found.length > count && html`<div class="row"><${Button} onClick=${() => setCount(count + PER_PAGE)}>Show more<//><span class="soft small">${count} of ${found.length}</span></div>`}
  </div>`
}
