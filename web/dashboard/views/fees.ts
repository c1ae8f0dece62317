import { explorerUrl, networkTitle } from '../../../core/domain/network.ts'
import { Button } from '../../components/button.ts'
import { Badge, Card, Empty } from '../../components/card.ts'
import { Amount, NetworkBadge } from '../../components/money.ts'
import { Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { html } from '../../html.ts'
import { Title } from '../../shell/frame.ts'
import { Fault, Load, useAction, useLoad } from '../../shell/load.ts'
import { msOf, sessionWords } from '../../shell/words.ts'
import { More, type PageOf, saveCsv, usePages } from '../pages.ts'
import { useSeller } from '../seller.ts'

interface MonthResponse {
  readonly month: string
  readonly currency: string
  readonly network: string
  readonly sales: number
  readonly salesAmount: string
  readonly fees: string
  readonly feesReturned: string
  readonly paid: string
}

interface OwedResponse {
  readonly currency: string
  readonly network: string
  readonly asset: string
  /** Negative if more was paid than is owed. */
  readonly amount: string
  readonly payable: boolean
}

interface FeesResponse {
  readonly months: readonly MonthResponse[]
  readonly owed: readonly OwedResponse[]
}

interface InvoiceResponse {
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
  readonly invoices: readonly InvoiceResponse[]
  readonly nextCursor: string | null
}

const invoicesPath = '/api/v1/fees/invoices'

/** The operator's fees, with the amounts owed by month and the invoices. */
export function Fees() {
  const { api, csrfToken } = useSeller()
  const loaded = useLoad(
    () => Promise.all([api<FeesResponse>('GET', '/api/v1/fees'), api<InvoicePage>('GET', invoicesPath)]),
    [],
  )
  const action = useAction()
  const save = () => action.run(() => saveCsv('/api/v1/fees', 'fees.csv', csrfToken))
  const draw = ([{ months, owed }, invoices]: readonly [FeesResponse, InvoicePage]) =>
    months.length === 0
      ? html`<${Empty} title="No fees yet"><p>This table adds up the platform’s share of each sale, one row per month.</p><//>`
      : html`<div class="stack">
          <${Card} title="Fees owed"><div class="shell-owed">
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

/** The amount that is owed in one token, with a button to its checkout. */
function Owed({ of: { network, asset, currency, amount, payable } }: { readonly of: OwedResponse }) {
  const { api, serviceName } = useSeller()
  const action = useAction()
  const pay = () =>
    action.run(async () => {
      const { checkoutUrl } = await api<InvoiceResponse>('POST', invoicesPath, { network, asset })
      // If the invoice is being paid elsewhere, the page is loaded again for the current amount.
      location.assign(checkoutUrl ?? location.href)
    })
  const where = networkTitle(network)
  const isOwed = Number(amount) > 0
  return html`<div class="shell-owed-token">
    <p><${Amount} value=${amount} currency=${currency} isBig=${true} /> <${NetworkBadge} network=${network} /></p>
    ${payable && html`<p><${Button} kind="primary" isBusy=${action.isBusy} onClick=${pay} aria-label=${`Pay fees: ${amount} ${currency} on ${where}`}>Pay fees<//></p>`}
    ${isOwed && !payable && html`<p class="soft small">${serviceName} has not set a wallet for fees on ${where}, so you can’t pay the fees here. The fees stay on your account. Ask the operator how to pay.</p>`}
    ${Number(amount) < 0 && html`<p class="soft small">You have paid in advance. Future fees are deducted from this amount.</p>`}
    ${Number(amount) === 0 && html`<p class="soft small">You owe nothing.</p>`}
    <${Fault} of=${action} />
  </div>`
}

function Months({ months }: { readonly months: readonly MonthResponse[] }) {
  const amount = (pick: (one: MonthResponse) => string) => (one: MonthResponse) =>
    html`<${Amount} value=${pick(one)} currency=${one.currency} />`
  const columns = [
    {
      key: 'month',
      title: 'Month',
      // The statement opens in a new tab, ready to print.
      cell: ({ month }: MonthResponse) =>
        html`<a class="number" href=${`/dashboard/fees/${month}`} target="_blank" title="Statement to print">${month}<span class="visually-hidden">, statement to print</span></a>`,
    },
    {
      key: 'network',
      title: 'Network',
      cell: ({ network }: MonthResponse) => html`<${NetworkBadge} network=${network} />`,
    },
    { key: 'sales', title: 'Sales', align: 'end', cell: ({ sales }: MonthResponse) => sales },
    { key: 'sold', title: 'Sales volume', align: 'end', cell: amount((one) => one.salesAmount) },
    { key: 'fees', title: 'Fees', align: 'end', cell: amount((one) => one.fees) },
    { key: 'returned', title: 'Fees returned', align: 'end', cell: amount((one) => one.feesReturned) },
    { key: 'paid', title: 'Paid', align: 'end', cell: amount((one) => one.paid) },
  ]
  return html`<${Card} title="By month">
    <p class="soft small shell-above">Open a month to print its statement.</p>
    <${Table} caption="Fees by month" columns=${columns} rows=${months} keyOf=${(one: MonthResponse) => one.month + one.network + one.currency} />
  <//>`
}

function Invoices({ first }: { readonly first: InvoicePage }) {
  const { api } = useSeller()
  const pages = usePages(rowsOf(first), async (cursor) =>
    rowsOf(await api<InvoicePage>('GET', `${invoicesPath}?cursor=${encodeURIComponent(cursor)}`)),
  )
  const nowMs = Date.now()
  const columns = [
    {
      key: 'when',
      title: 'When',
      cell: ({ createdAt }: InvoiceResponse) => html`<${Time} atMs=${msOf(createdAt)} nowMs=${nowMs} />`,
    },
    {
      key: 'amount',
      title: 'Amount',
      align: 'end',
      cell: ({ amount, currency }: InvoiceResponse) =>
        html`<${Amount} value=${amount} currency=${currency} />`,
    },
    {
      key: 'network',
      title: 'Network',
      cell: ({ network }: InvoiceResponse) => html`<${NetworkBadge} network=${network} />`,
    },
    {
      key: 'status',
      title: 'State',
      cell: ({ status, processing }: InvoiceResponse) => {
        const { words, tone } = sessionWords(status)
        return html`<${Badge} tone=${tone}>${processing ? 'Being paid' : words}<//>`
      },
    },
    {
      key: 'way',
      title: 'Where',
      cell: ({ checkoutUrl, txHash, network }: InvoiceResponse) => {
        if (checkoutUrl !== null) return html`<a href=${checkoutUrl}>Checkout</a>`
        const transaction = txHash === null ? undefined : explorerUrl(network, txHash)
        return transaction && html`<a href=${transaction} target="_blank" rel="noreferrer">Transaction</a>`
      },
    },
  ]
  const empty = html`<${Empty} title="No invoices yet"><p>“Pay fees” creates an invoice, which is open for 30 minutes.</p><//>`
  return html`<${Card} title="Invoices"><div class="stack">
    <${Table} caption="Fee invoices" columns=${columns} rows=${pages.rows} keyOf=${({ id }: InvoiceResponse) => id} empty=${empty} />
    <${More} of=${pages} />
  </div><//>`
}

const rowsOf = ({ invoices, nextCursor }: InvoicePage): PageOf<InvoiceResponse> => ({
  rows: invoices,
  nextCursor,
})
