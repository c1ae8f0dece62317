import { useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Badge } from '../../components/card.ts'
import { Select } from '../../components/field.ts'
import { Amount } from '../../components/money.ts'
import { Table } from '../../components/table.ts'
import { html } from '../../html.ts'
import type { Worded } from '../../shell/words.ts'
import { keyOf, type OperationResponse, type ReportRow } from './importJob.ts'

type Action = OperationResponse['action']

const planned: Readonly<Record<Action, Worded>> = {
  create: { words: 'To be created', tone: 'info' },
  change: { words: 'To be changed', tone: 'info' },
  keep: { words: 'Unchanged', tone: 'plain' },
  left_out: { words: 'Skipped', tone: 'plain' },
  gone: { words: 'No longer in the document', tone: 'warn' },
  failed: { words: 'Can’t be created', tone: 'bad' },
}

const done: Readonly<Record<Action, Worded>> = {
  ...planned,
  create: { words: 'Created', tone: 'good' },
  change: { words: 'Changed', tone: 'good' },
  failed: { words: 'Failed', tone: 'bad' },
}

const wordsOf = ({ action, isDone }: ReportRow): Worded => (isDone ? done : planned)[action]

const fields: Readonly<Record<string, string>> = {
  url: 'address',
  inputSchema: 'input',
  outputExample: 'example',
  isPublic: 'visibility',
  upstreamHeaders: 'headers',
}

/** Number of rows that are shown at first and added by each press of "Show more". */
const PER_PAGE = 100

/** Counts per result, in words: `12 created, 1 skipped`. */
export function summaryOf(rows: readonly ReportRow[]): string {
  const counts = Map.groupBy(rows, (row) => wordsOf(row).words)
  return [...counts]
    .map(([words, { length }]) => `${length} ${words[0]!.toLowerCase()}${words.slice(1)}`)
    .join(', ')
}

/** The result of each operation, and its reason. */
export function Report({ rows }: { readonly rows: readonly ReportRow[] }) {
  const [chosen, setChosen] = useState('')
  const [count, setCount] = useState(PER_PAGE)
  const kinds = [...new Set(rows.map((row) => wordsOf(row).words))]
  const kind = kinds.includes(chosen) ? chosen : ''
  const found = kind === '' ? rows : rows.filter((row) => wordsOf(row).words === kind)
  const columns = [
    {
      key: 'operation',
      title: 'Operation',
      cell: ({
        operation,
        title,
        linkId,
      }: ReportRow) => html`<span class="shell-main-cell shell-text mono">${operation}</span>
        ${title !== null && html`<span class="soft small shell-text" dir="auto">${linkId === null ? title : html`<a href=${`/dashboard/links/${linkId}`}>${title}</a>`}</span>`}`,
    },
    {
      key: 'action',
      title: 'Result',
      cell: (row: ReportRow) => html`<${Badge} tone=${wordsOf(row).tone}>${wordsOf(row).words}<//>`,
    },
    {
      key: 'price',
      title: 'Price',
      align: 'end',
      cell: ({ price }: ReportRow) => {
        if (price === null) return html`<span class="soft">–</span>`
        return /[1-9]/.test(price) ? html`<${Amount} value=${price} />` : 'Free'
      },
    },
    {
      key: 'note',
      title: 'Notes',
      cell: ({ changes, reason }: ReportRow) => html`<div class="shell-note">
        ${changes.length > 0 && html`<span>Changes: ${changes.map((name) => fields[name] ?? name).join(', ')}.</span> `}
        ${reason !== null && html`<span dir="auto">${reason}</span>`}
      </div>`,
    },
  ]
  return html`<div class="stack">
    ${
      kinds.length > 1 &&
      html`<div class="shell-filters"><${Select} id="kind" label="Show" value=${kind} onChange=${setChosen}
        options=${[{ value: '', label: `All ${rows.length}` }, ...kinds.map((one) => ({ value: one, label: one }))]} /></div>`
    }
    <${Table} caption="Operations" columns=${columns} rows=${found.slice(0, count)} keyOf=${keyOf} />
    ${found.length > count && html`<div class="row"><${Button} onClick=${() => setCount(count + PER_PAGE)}>Show more<//><span class="soft small">${count} of ${found.length}</span></div>`}
  </div>`
}
