import { Amount } from '../../components/amount.ts'
import { Badge } from '../../components/badge.ts'
import { Button } from '../../components/button.ts'
import { Empty } from '../../components/empty.ts'
import { Select } from '../../components/select.ts'
import { Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { Load, useLoad } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { msOf, purchaseWords, sessionWords } from '../../desk/words.ts'
import { html } from '../../html.ts'
import { More, type PageOf, usePages } from '../pages.ts'
import { useSeller } from '../seller.ts'

interface SessionAnswer {
  readonly id: string
  readonly status: string
  readonly amount: string
  readonly currency: string
  readonly item: { readonly title: string }
  readonly purchaseId: string | null
  readonly purchaseStatus: string | null
  readonly clientReferenceId: string | null
  readonly createdAt: string
  readonly expiresAt: string
}

interface SessionPage {
  readonly payments: readonly SessionAnswer[]
  readonly nextCursor: string | null
}

const statuses = [
  { value: '', label: 'All of them' },
  ...['open', 'confirmed', 'expired', 'canceled', 'failed'].map((value) => ({
    value,
    label: sessionWords(value).words,
  })),
]

/** What the store asked to be paid, and what became of it. */
export function Sessions({ status }: { readonly status: string }) {
  const { ask, go } = useSeller()
  const path = `/api/v1/payments?limit=25${status && `&status=${encodeURIComponent(status)}`}`
  const first = useLoad(() => ask<SessionPage>('GET', path), [])
  return html`<div class="stack">
    <${Title} actions=${html`<${Button} kind="primary" href="/dashboard/sessions/new">New payment link<//>`}>Payment sessions<//>
    <div class="desk-filters">
      <${Select} id="status" label="State" value=${status} options=${statuses}
        onChange=${(value: string) => go(`/dashboard/sessions${value && `?status=${value}`}`)} />
    </div>
    <${Load} of=${first}>${(page: SessionPage) => html`<${Pages} first=${page} path=${path} isFiltered=${status !== ''} />`}<//>
  </div>`
}

interface PagesProps {
  readonly first: SessionPage
  readonly path: string
  readonly isFiltered: boolean
}

function Pages({ first, path, isFiltered }: PagesProps) {
  const { ask } = useSeller()
  const pages = usePages(rowsOf(first), async (cursor) =>
    rowsOf(await ask<SessionPage>('GET', `${path}&cursor=${encodeURIComponent(cursor)}`)),
  )
  const nowMs = Date.now()
  const columns = [
    {
      key: 'when',
      title: 'When',
      cell: ({ createdAt }: SessionAnswer) => html`<${Time} atMs=${msOf(createdAt)} nowMs=${nowMs} />`,
    },
    {
      ...{ key: 'what', title: 'What' },
      cell: ({
        item,
        clientReferenceId,
      }: SessionAnswer) => html`<span class="desk-main-cell desk-text" dir="auto">${item.title}</span>
        ${clientReferenceId && html`<span class="soft small mono">${clientReferenceId}</span>`}`,
    },
    {
      key: 'amount',
      title: 'Amount',
      align: 'end',
      cell: ({ amount, currency }: SessionAnswer) => html`<${Amount} value=${amount} currency=${currency} />`,
    },
    {
      ...{ key: 'status', title: 'State' },
      cell: ({ status, purchaseId, purchaseStatus }: SessionAnswer) => {
        // What became of the money since counts for more than that it was paid.
        const isPaid = purchaseStatus === null || purchaseStatus === 'delivered'
        const { words, tone } = isPaid ? sessionWords(status) : purchaseWords(purchaseStatus)
        const badge = html`<${Badge} tone=${tone}>${words}<//>`
        return purchaseId === null
          ? badge
          : html`<a href=${`/dashboard/purchases/${purchaseId}`}>${badge}</a>`
      },
    },
  ]
  const empty = isFiltered
    ? html`<${Empty} title="No session is like this"><${Button} href="/dashboard/sessions">Show all<//><//>`
    : html`<${Empty} title="No payment sessions yet">
        <p>A session is a checkout page for one payment of any amount. Make one here and send its link to your buyer, or have your program do so.</p>
        <p><a href="/docs/sellers">How a program makes one</a></p>
      <//>`
  return html`<div class="stack">
    <${Table} caption="Payment sessions" columns=${columns} rows=${pages.rows} keyOf=${({ id }: SessionAnswer) => id} empty=${empty} />
    <${More} of=${pages} />
  </div>`
}

const rowsOf = ({ payments, nextCursor }: SessionPage): PageOf<SessionAnswer> => ({
  rows: payments,
  nextCursor,
})
