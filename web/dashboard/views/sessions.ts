import { Button } from '../../components/button.ts'
import { Badge, Empty } from '../../components/card.ts'
import { Select } from '../../components/field.ts'
import { Amount } from '../../components/money.ts'
import { Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { html } from '../../html.ts'
import { Title } from '../../shell/frame.ts'
import { Load, useLoad } from '../../shell/load.ts'
import { msOf, purchaseWords, sessionWords } from '../../shell/words.ts'
import { More, type PageOf, usePages } from '../pages.ts'
import { useSeller } from '../seller.ts'

interface SessionResponse {
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
  readonly payments: readonly SessionResponse[]
  readonly nextCursor: string | null
}

const statuses = [
  { value: '', label: 'All' },
  ...['open', 'confirmed', 'expired', 'canceled', 'failed'].map((value) => ({
    value,
    label: sessionWords(value).words,
  })),
]

/** The store's payment sessions. */
export function Sessions({ status }: { readonly status: string }) {
  const { api, go } = useSeller()
  const path = `/api/v1/payments?limit=25${status && `&status=${encodeURIComponent(status)}`}`
  const first = useLoad(() => api<SessionPage>('GET', path), [])
  return html`<div class="stack">
    <${Title} actions=${html`<${Button} kind="primary" href="/dashboard/sessions/new">New payment link<//>`}>Payment sessions<//>
    <div class="shell-filters">
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
  const { api } = useSeller()
  const pages = usePages(rowsOf(first), async (cursor) =>
    rowsOf(await api<SessionPage>('GET', `${path}&cursor=${encodeURIComponent(cursor)}`)),
  )
  const nowMs = Date.now()
  const columns = [
    {
      key: 'when',
      title: 'When',
      cell: ({ createdAt }: SessionResponse) => html`<${Time} atMs=${msOf(createdAt)} nowMs=${nowMs} />`,
    },
    {
      key: 'what',
      title: 'What',
      cell: ({
        item,
        clientReferenceId,
      }: SessionResponse) => html`<span class="shell-main-cell shell-text" dir="auto">${item.title}</span>
        ${clientReferenceId && html`<span class="soft small mono">${clientReferenceId}</span>`}`,
    },
    {
      key: 'amount',
      title: 'Amount',
      align: 'end',
      cell: ({ amount, currency }: SessionResponse) =>
        html`<${Amount} value=${amount} currency=${currency} />`,
    },
    {
      key: 'status',
      title: 'State',
      cell: ({ status, purchaseId, purchaseStatus }: SessionResponse) => {
        // A state after the payment, such as a refund, is shown instead of the fact that the session was paid.
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
    ? html`<${Empty} title="No payment sessions match"><${Button} href="/dashboard/sessions">Show all<//><//>`
    : html`<${Empty} title="No payment sessions yet">
        <p>A payment session is a checkout page for one payment of any amount. Create a session here and send the checkout link to your buyer, or create sessions from your program.</p>
        <p><a href="/docs/tutorials/take-a-payment.html">How to create a session from a program</a></p>
      <//>`
  return html`<div class="stack">
    <${Table} caption="Payment sessions" columns=${columns} rows=${pages.rows} keyOf=${({ id }: SessionResponse) => id} empty=${empty} />
    <${More} of=${pages} />
  </div>`
}

const rowsOf = ({ payments, nextCursor }: SessionPage): PageOf<SessionResponse> => ({
  rows: payments,
  nextCursor,
})
