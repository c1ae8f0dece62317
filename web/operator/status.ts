import { useEffect } from 'preact/hooks'
import { Address } from '../components/address.ts'
import { Badge } from '../components/badge.ts'
import { Card } from '../components/card.ts'
import { NetworkBadge } from '../components/networkBadge.ts'
import { Table } from '../components/table.ts'
import { Time } from '../components/time.ts'
import type { ApiClient } from '../desk/api.ts'
import { Load, useLoad } from '../desk/load.ts'
import { Title } from '../desk/title.ts'
import { msOf, stepWords } from '../desk/words.ts'
import { html } from '../html.ts'
import { Live } from './live.ts'

/** How often the state is asked for. */
const REFRESH_MS = 10_000

interface PaymentAnswer {
  readonly purchaseId: string
  readonly state: string
  readonly network: string
  readonly amount: string
  readonly payer: string
  readonly txHash: string | null
  readonly tries: number
  readonly reason: string | null
  readonly since: string
}

interface PaymentsAnswer {
  readonly rows: readonly PaymentAnswer[]
  readonly hasMore: boolean
}

interface StatusAnswer {
  readonly problems: readonly string[]
  readonly networks: readonly {
    readonly network: string
    readonly isOpen: boolean
    readonly problems: readonly string[]
  }[]
  readonly pending: PaymentsAnswer
  readonly refundsDue: PaymentsAnswer
  readonly parked: { readonly total: number; readonly rows: readonly PaymentAnswer[] }
  readonly checkedAt: string
}

/** Is the gateway healthy, and is money stuck? */
export function Status({ ask, onSignedOut }: { readonly ask: ApiClient; readonly onSignedOut: () => void }) {
  const status = useLoad(() => ask<StatusAnswer>('GET', '/api/operator/status'), [])
  useEffect(() => {
    const timer = setInterval(() => document.hidden || status.reload(), REFRESH_MS)
    return () => clearInterval(timer)
  }, [])
  return html`<div class="stack">
    <${Title}>State of the service<//>
    <${Live} onSignedOut=${onSignedOut} />
    <${Load} of=${status}>${(data: StatusAnswer) => html`<${StatusView} status=${data} />`}<//>
  </div>`
}

function StatusView({ status }: { readonly status: StatusAnswer }) {
  const { problems, networks, pending, refundsDue, parked, checkedAt } = status
  return html`<div class="stack">
    ${
      problems.length === 0
        ? html`<p class="desk-well"><span class="desk-dot good" aria-hidden="true"></span><span>The service works. Looked <${Time} atMs=${msOf(checkedAt)} nowMs=${Date.now()} />, and again every ten seconds.</span></p>`
        : html`<${Card} title="What keeps the service from working"><ul class="desk-list">
            ${problems.map((problem) => html`<${Problem} problem=${problem} />`)}
          </ul><//>`
    }
    <dl class="desk-tiles">
      <${Tile} title="On their way" value=${many(pending)} />
      <${Tile} title="Put off again and again" value=${String(parked.total)} />
      <${Tile} title="Refunds due" value=${many(refundsDue)} />
      <${Tile} title="Networks open" value=${`${networks.filter(({ isOpen }) => isOpen).length} of ${networks.length}`} />
    </dl>
    <${Card} title="Networks"><ul class="desk-list">
      ${networks.map(
        ({ network, isOpen, problems }) => html`<li><${NetworkBadge} network=${network} />
          ${isOpen && problems.length === 0 ? html`<${Badge} tone="good">Settles<//>` : html`<${Badge} tone=${isOpen ? 'warn' : 'bad'}>${isOpen ? 'Look at it' : 'Closed'}<//>`}
          ${problems.map((problem) => html`<p class="desk-problem">${problem}</p>`)}</li>`,
      )}
      ${networks.length === 0 && html`<li class="soft">None is configured: paid links can’t be paid.</li>`}
    </ul><//>
    ${parked.total > 0 && html`<${Payments} title="Put off again and again" payments=${parked.rows} />`}
    <${Payments} title="On their way" payments=${pending.rows} />
    <${Payments} title="Refunds due" payments=${refundsDue.rows} />
  </div>`
}

/** One that begins with a network's id is that network's, which has a name. */
function Problem({ problem }: { readonly problem: string }) {
  const [, network, words = problem] = /^((?:eip155|solana):\w+): ([\s\S]*)$/.exec(problem) ?? []
  return html`<li class="operator-fault">${network === undefined ? html`<${Badge} tone="bad">Gateway<//>` : html`<${NetworkBadge} network=${network} />`}
    <p class="desk-problem">${words}</p></li>`
}

const many = ({ rows, hasMore }: PaymentsAnswer): string => `${rows.length}${hasMore ? '+' : ''}`

const Tile = ({ title, value }: { readonly title: string; readonly value: string }) =>
  html`<div class="desk-tile"><dt>${title}</dt><dd><span class="desk-figure">${value}</span></dd></div>`

function Payments({
  title,
  payments,
}: {
  readonly title: string
  readonly payments: readonly PaymentAnswer[]
}) {
  const nowMs = Date.now()
  // Of refunds all are in one state, and nothing is tried: the seller sends them.
  const areRefunds = payments.every(({ state }) => state === 'refund_due')
  const columns = [
    {
      key: 'since',
      title: 'Since',
      cell: ({ since }: PaymentAnswer) =>
        html`<span class="desk-main-cell"><${Time} atMs=${msOf(since)} nowMs=${nowMs} /></span>`,
    },
    {
      key: 'amount',
      title: 'Amount',
      align: 'end',
      cell: ({ amount, network }: PaymentAnswer) =>
        html`<span class="operator-owed"><span class="number">${amount}</span><${NetworkBadge} network=${network} /></span>`,
    },
    ...(areRefunds
      ? []
      : [
          {
            key: 'state',
            title: 'State',
            cell: ({ state, tries }: PaymentAnswer) =>
              html`<span class="operator-tried"><span>${stateWords[state] ?? stepWords(state).words}</span>${tries > 0 && html`<span class="small soft">${tries === 1 ? 'tried once' : `tried ${tries} times`}</span>`}</span>`,
          },
        ]),
    {
      key: 'reason',
      title: areRefunds ? 'Why it is owed' : 'Why it waits',
      cell: ({ reason }: PaymentAnswer) =>
        html`<span class="operator-reason" dir="auto">${reason ?? '–'}</span>`,
    },
    {
      key: 'tx',
      title: 'Transaction',
      cell: ({ txHash }: PaymentAnswer) =>
        txHash ? html`<${Address} value=${txHash} what="transaction" />` : '–',
    },
    {
      key: 'payer',
      title: 'Payer',
      cell: ({ payer }: PaymentAnswer) =>
        html`<${Address} value=${payer} what="payer’s wallet" canCopy=${false} />`,
    },
  ]
  return html`<${Card} title=${title}>
    <${Table} caption=${title} columns=${columns} rows=${payments} keyOf=${({ purchaseId }: PaymentAnswer) => purchaseId}
      empty=${html`<p class="soft">None.</p>`} />
  <//>`
}

const stateWords: Readonly<Record<string, string>> = { settling: 'Being sent', pending: 'Sent, not seen yet' }
