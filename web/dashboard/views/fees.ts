import { explorerUrl, networkTitle } from '../../../core/domain/network.ts'
import { Amount } from '../../components/amount.ts'
import { Badge } from '../../components/badge.ts'
import { Button } from '../../components/button.ts'
import { Card } from '../../components/card.ts'
import { Empty } from '../../components/empty.ts'
import { NetworkBadge } from '../../components/networkBadge.ts'
import { Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { Fault, Load, useAction, useLoad } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { msOf, sessionWords } from '../../desk/words.ts'
import { html } from '../../html.ts'
import { saveCsv } from '../csv.ts'
import { More, type PageOf, usePages } from '../pages.ts'
import { useSeller } from '../seller.ts'

interface MonthAnswer {
  readonly month: string
  readonly currency: string
  readonly network: string
  readonly sales: number
  readonly salesAmount: string
  readonly fees: string
  readonly feesReturned: string
  readonly paid: string
}

interface OwedAnswer {
  readonly currency: string
  readonly network: string
  readonly asset: string
  /** Below zero where more was paid than is owed. */
  readonly amount: string
  readonly payable: boolean
}

interface FeesAnswer {
  readonly months: readonly MonthAnswer[]
  readonly owed: readonly OwedAnswer[]
}

interface InvoiceAnswer {
  readonly id: string
  readonly status: string
  readonly amount: string
  readonly currency: string
  readonly network: string
  readonly processing: boolean
  readonly checkoutUrl: string | null
  readonly txHash: string | null
  readonly createdAt: string
}

interface InvoicePage {
  readonly invoices: readonly InvoiceAnswer[]
  readonly nextCursor: string | null
}

const invoicesPath = '/api/v1/fees/invoices'

/** What the platform's share comes to, month by month, and where it is paid. */
export function Fees() {
  const { ask, csrfToken } = useSeller()
  const loaded = useLoad(
    () => Promise.all([ask<FeesAnswer>('GET', '/api/v1/fees'), ask<InvoicePage>('GET', invoicesPath)]),
    [],
  )
  const action = useAction()
  const save = () => action.run(() => saveCsv('/api/v1/fees', 'fees.csv', csrfToken))
  const draw = ([{ months, owed }, invoices]: readonly [FeesAnswer, InvoicePage]) =>
    months.length === 0
      ? html`<${Empty} title="No fees yet"><p>The platform’s share of each sale adds up here, a line a month.</p><//>`
      : html`<div class="stack">
          <${Card} title="Owed by now"><div class="desk-owed">
            ${owed.map((one) => html`<${Owed} key=${one.network + one.asset} of=${one} />`)}
          </div><//>
          <${Months} months=${months} />
          <${Invoices} first=${invoices} />
        </div>`
  return html`<div class="stack">
    <${Title} actions=${html`<${Button} isBusy=${action.isBusy} onClick=${save}>CSV<//>`}>Fees<//>
    <${Fault} of=${action} />
    <${Load} of=${loaded}>${draw}<//>
  </div>`
}

/** What is owed in one token, and the way to its checkout. */
function Owed({ of: { network, asset, currency, amount, payable } }: { readonly of: OwedAnswer }) {
  const { ask, serviceName } = useSeller()
  const action = useAction()
  const pay = () =>
    action.run(async () => {
      const { checkoutUrl } = await ask<InvoiceAnswer>('POST', invoicesPath, { network, asset })
      // Paid by somebody else at this moment: what is owed now is said anew.
      location.assign(checkoutUrl ?? location.href)
    })
  const where = networkTitle(network)
  const isOwed = Number(amount) > 0
  return html`<div class="desk-owed-token">
    <p><${Amount} value=${amount} currency=${currency} isBig=${true} /> <${NetworkBadge} network=${network} /></p>
    ${payable && html`<p><${Button} kind="primary" isBusy=${action.isBusy} onClick=${pay} aria-label=${`Pay what is owed: ${amount} ${currency} on ${where}`}>Pay what is owed<//></p>`}
    ${isOwed && !payable && html`<p class="soft small">${serviceName} has named no wallet for fees on ${where}, so that this can’t be paid here. It stays in the books; ask how to pay.</p>`}
    ${Number(amount) < 0 && html`<p class="soft small">Paid ahead. The fees to come use it up.</p>`}
    ${Number(amount) === 0 && html`<p class="soft small">Nothing is owed.</p>`}
    <${Fault} of=${action} />
  </div>`
}

function Months({ months }: { readonly months: readonly MonthAnswer[] }) {
  const amount = (pick: (one: MonthAnswer) => string) => (one: MonthAnswer) =>
    html`<${Amount} value=${pick(one)} currency=${one.currency} />`
  const columns = [
    {
      ...{ key: 'month', title: 'Month' },
      // A page of its own, to print: it opens beside this one.
      cell: ({ month }: MonthAnswer) =>
        html`<a class="number" href=${`/dashboard/fees/${month}`} target="_blank" title="Statement to print">${month}<span class="visually-hidden">, statement to print</span></a>`,
    },
    {
      ...{ key: 'network', title: 'Network' },
      cell: ({ network }: MonthAnswer) => html`<${NetworkBadge} network=${network} />`,
    },
    { key: 'sales', title: 'Sales', align: 'end', cell: ({ sales }: MonthAnswer) => sales },
    { key: 'sold', title: 'Sold for', align: 'end', cell: amount((one) => one.salesAmount) },
    { key: 'fees', title: 'Fees', align: 'end', cell: amount((one) => one.fees) },
    { key: 'returned', title: 'Given back', align: 'end', cell: amount((one) => one.feesReturned) },
    { key: 'paid', title: 'Paid', align: 'end', cell: amount((one) => one.paid) },
  ]
  return html`<${Card} title="By month">
    <p class="soft small desk-above">A month opens as a statement to print.</p>
    <${Table} caption="Fees by month" columns=${columns} rows=${months} keyOf=${(one: MonthAnswer) => one.month + one.network + one.currency} />
  <//>`
}

function Invoices({ first }: { readonly first: InvoicePage }) {
  const { ask } = useSeller()
  const pages = usePages(rowsOf(first), async (cursor) =>
    rowsOf(await ask<InvoicePage>('GET', `${invoicesPath}?cursor=${encodeURIComponent(cursor)}`)),
  )
  const nowMs = Date.now()
  const columns = [
    {
      ...{ key: 'when', title: 'When' },
      cell: ({ createdAt }: InvoiceAnswer) => html`<${Time} atMs=${msOf(createdAt)} nowMs=${nowMs} />`,
    },
    {
      ...{ key: 'amount', title: 'Amount', align: 'end' },
      cell: ({ amount, currency }: InvoiceAnswer) => html`<${Amount} value=${amount} currency=${currency} />`,
    },
    {
      ...{ key: 'network', title: 'Network' },
      cell: ({ network }: InvoiceAnswer) => html`<${NetworkBadge} network=${network} />`,
    },
    {
      ...{ key: 'status', title: 'State' },
      cell: ({ status, processing }: InvoiceAnswer) => {
        const { words, tone } = sessionWords(status)
        return html`<${Badge} tone=${tone}>${processing ? 'Being paid' : words}<//>`
      },
    },
    {
      ...{ key: 'way', title: 'Where' },
      cell: ({ checkoutUrl, txHash, network }: InvoiceAnswer) => {
        if (checkoutUrl !== null) return html`<a href=${checkoutUrl}>Checkout</a>`
        const transaction = txHash === null ? undefined : explorerUrl(network, txHash)
        return transaction && html`<a href=${transaction} target="_blank" rel="noreferrer">Transaction</a>`
      },
    },
  ]
  const empty = html`<${Empty} title="No invoices yet"><p>Each press of “Pay what is owed” makes one, for half an hour.</p><//>`
  return html`<${Card} title="Invoices"><div class="stack">
    <${Table} caption="Invoices of fees" columns=${columns} rows=${pages.rows} keyOf=${({ id }: InvoiceAnswer) => id} empty=${empty} />
    <${More} of=${pages} />
  </div><//>`
}

const rowsOf = ({ invoices, nextCursor }: InvoicePage): PageOf<InvoiceAnswer> => ({
  rows: invoices,
  nextCursor,
})
