import { networkTitle } from '../../core/domain/network.ts'
import { exactTime } from '../components/time.ts'
import { html } from '../html.ts'

/** An account's totals for the month. Amounts are decimal strings in `currency`. */
export interface StatementAccount {
  readonly currency: string
  /** CAIP-2 id and token. Null for the total of a currency. */
  readonly token: { readonly network: string; readonly asset: string } | null
  readonly sales: number
  readonly salesAmount: string
  readonly fees: string
  readonly refunds: number
  readonly refundedAmount: string
  readonly feesReturned: string
  readonly paid: string
  readonly owedBefore: string
  /** Negative if more was paid than is owed. */
  readonly owedAfter: string
}

/** A wallet, and its network. */
export interface StatementWallet {
  readonly chain: string
  readonly address: string
}

export interface StatementProps {
  readonly serviceName: string
  readonly publicUrl: string
  /** The wallets to which fees are paid. */
  readonly payTo: readonly StatementWallet[]
  readonly store: {
    readonly username: string
    readonly displayName: string
    readonly wallets: readonly StatementWallet[]
  }
  /** The month in UTC, such as `2026-11`. */
  readonly month: string
  /** When the statement was made, in ms since 1970. */
  readonly madeAtMs: number
  readonly accounts: readonly StatementAccount[]
  /** Totals of currencies that are owed on several networks. */
  readonly totals: readonly StatementAccount[]
}

/** `November 2026` */
export const monthTitle = (month: string): string =>
  new Date(`${month}-01T00:00:00Z`).toLocaleString('en-GB', {
    month: 'long',
    year: 'numeric',
    timeZone: 'UTC',
  })

/** A store's fees of one month, to print or save as a PDF. It needs no JavaScript, and is black on white on paper. */
export function StatementPage(props: StatementProps) {
  const { serviceName, publicUrl, payTo, store, month, madeAtMs, accounts, totals } = props
  const isOver = new Date(madeAtMs).toISOString().slice(0, 7) > month
  return html`<main class="statement">
    <p class="statement-way"><a href="/dashboard/fees">All fees</a> <span class="soft small">Print this page, or save it as a PDF, with your browser.</span></p>
    <header>
      <p class="soft">Fee statement</p>
      <h1>${monthTitle(month)}</h1>
      ${!isOver && html`<p><strong>So far:</strong> this month has not ended.</p>`}
    </header>
    <div class="statement-parties">
      <section aria-labelledby="of"><h2 id="of">Store</h2>
        <p dir="auto"><strong>${store.displayName || store.username}</strong></p>
        <p>@${store.username}</p>
        <${Wallets} of=${store.wallets} words="Payout wallet" />
      </section>
      <section aria-labelledby="by"><h2 id="by">Operator</h2>
        <p><strong>${serviceName}</strong></p>
        <p>${publicUrl}</p>
        <${Wallets} of=${payTo} words="Fees are paid to" />
      </section>
    </div>
    ${accounts.length === 0 && html`<p>This month has no sales, refunds or payments, and nothing was owed before.</p>`}
    ${accounts.map((one) => html`<${Account} of=${one} month=${month} />`)}
    ${totals.map((one) => html`<${Account} of=${one} month=${month} />`)}
    <footer class="soft small">
      <p>Months are in UTC. Sales, refunds and fee payments count in the month in which they were recorded.</p>
      <p>Created by ${serviceName} on ${exactTime(madeAtMs)} from its ledger.</p>
    </footer>
  </main>`
}

const Wallets = ({ of, words }: { readonly of: readonly StatementWallet[]; readonly words: string }) =>
  of.map(
    ({ chain, address }) =>
      html`<p class="small"><span class="soft">${words} on ${chain}</span><br /><code>${address}</code></p>`,
  )

function Account({ of, month }: { readonly of: StatementAccount; readonly month: string }) {
  const { currency, token, sales, refunds } = of
  const where = token === null ? 'on all networks' : `on ${networkTitle(token.network)}`
  // Pads the amounts so that the decimal points are aligned.
  const amounts = [of.owedBefore, of.fees, of.feesReturned, of.paid, of.owedAfter]
  const places = Math.max(...amounts.map((value) => value.length - value.indexOf('.') - 1))
  const row = (words: string, value: string, about = '') => html`<tr>
    <th scope="row">${words}${about && html` <span class="soft">${about}</span>`}</th>
    <td class="number">${value.padEnd(value.indexOf('.') + 1 + places, '0')} ${currency}</td>
  </tr>`
  return html`<section class="statement-account">
    <h2>${currency} ${where}</h2>
    ${token && html`<p class="soft small">Token <code>${token.asset}</code></p>`}
    <table>
      <caption class="visually-hidden">Account in ${currency} ${where}</caption>
      <thead><tr><th scope="col">What</th><th scope="col">Amount</th></tr></thead>
      <tbody>
        ${row(`Owed before ${monthTitle(month)}`, of.owedBefore)}
        ${row('Fees', of.fees, `of ${sales} ${sales === 1 ? 'sale' : 'sales'} for ${of.salesAmount} ${currency}`)}
        ${row('Fees returned', less(of.feesReturned), `for ${refunds} ${refunds === 1 ? 'refund' : 'refunds'} of ${of.refundedAmount} ${currency}`)}
        ${row('Paid', less(of.paid))}
      </tbody>
      <tfoot>${row('Owed after', of.owedAfter, of.owedAfter.startsWith('-') ? 'paid in advance and deducted from future fees' : '')}</tfoot>
    </table>
  </section>`
}

/** A deduction from the account. Zero gets no sign. */
const less = (amount: string): string => (/[1-9]/.test(amount) ? `-${amount}` : amount)

export interface NoStatementProps {
  readonly serviceName: string
  readonly title: string
  readonly about: string
}

/** The page that is shown if there is no statement. */
export const NoStatementPage = ({ serviceName, title, about }: NoStatementProps) =>
  html`<main class="statement">
    <p class="soft">${serviceName}</p>
    <h1>${title}</h1>
    <p>${about}</p>
    <p><a href="/dashboard/fees">All fees</a></p>
  </main>`
