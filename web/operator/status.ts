import { useEffect } from 'preact/hooks'
import { Badge, Card } from '../components/card.ts'
import { Address, NetworkBadge } from '../components/money.ts'
import { Table } from '../components/table.ts'
import { Time } from '../components/time.ts'
import { html } from '../html.ts'
import type { ApiClient } from '../shell/api.ts'
import { ChannelTotals, type ChannelTotalsResponse } from '../shell/channelTotals.ts'
import { Title } from '../shell/frame.ts'
import { Load, useLoad } from '../shell/load.ts'
import { msOf, stepWords } from '../shell/words.ts'
import { Live } from './live.ts'

/** How often the status is polled, in ms. */
const REFRESH_MS = 10_000

interface PaymentResponse {
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

interface PaymentsResponse {
  readonly rows: readonly PaymentResponse[]
  readonly hasMore: boolean
}

interface JobResponse {
  readonly name: string
  readonly lastRunAt: string | null
  readonly lastDurationMs: number | null
  readonly lastError: string | null
}

interface StatusResponse {
  readonly problems: readonly string[]
  readonly networks: readonly {
    readonly network: string
    readonly isOpen: boolean
    readonly problems: readonly string[]
  }[]
  readonly pending: PaymentsResponse
  readonly refundsDue: PaymentsResponse
  /** The payment channels of all stores. */
  readonly channels: readonly ChannelTotalsResponse[]
  readonly parked: { readonly total: number; readonly rows: readonly PaymentResponse[] }
  readonly jobs: readonly JobResponse[]
  readonly checkedAt: string
}

/** The status. It shows whether the gateway is healthy and whether payments are stuck. */
export function Status({ api, onSignedOut }: { readonly api: ApiClient; readonly onSignedOut: () => void }) {
  const status = useLoad(() => api<StatusResponse>('GET', '/api/operator/status'), [])
  useEffect(() => {
    const timer = setInterval(() => document.hidden || status.reload(), REFRESH_MS)
    return () => clearInterval(timer)
  }, [])
  return html`<div class="stack">
    <${Title}>Service status<//>
    <${Live} onSignedOut=${onSignedOut} />
    <${Load} of=${status}>${(data: StatusResponse) => html`<${StatusView} status=${data} />`}<//>
  </div>`
}

function StatusView({ status }: { readonly status: StatusResponse }) {
  const { problems, networks, pending, refundsDue, channels, parked, jobs, checkedAt } = status
  return html`<div class="stack">
    ${
      problems.length === 0
        ? html`<p class="shell-well"><span class="shell-dot good" aria-hidden="true"></span><span>The service is working. Checked <${Time} atMs=${msOf(checkedAt)} nowMs=${Date.now()} />. The page checks again every ten seconds.</span></p>`
        : html`<${Card} title="Problems"><ul class="shell-list">
            ${problems.map((problem) => html`<${Problem} problem=${problem} />`)}
          </ul><//>`
    }
    <dl class="shell-tiles">
      <${Tile} title="Pending payments" value=${many(pending)} />
      <${Tile} title="Repeatedly deferred" value=${String(parked.total)} />
      <${Tile} title="Refunds due" value=${many(refundsDue)} />
      <${Tile} title="Networks available" value=${`${networks.filter(({ isOpen }) => isOpen).length} of ${networks.length}`} />
    </dl>
    <${Card} title="Networks"><ul class="shell-list">
      ${networks.map(
        ({ network, isOpen, problems }) => html`<li><${NetworkBadge} network=${network} />
          ${isOpen && problems.length === 0 ? html`<${Badge} tone="good">Settles<//>` : html`<${Badge} tone=${isOpen ? 'warn' : 'bad'}>${isOpen ? 'Needs attention' : 'Unavailable'}<//>`}
          ${problems.map((problem) => html`<p class="shell-problem">${problem}</p>`)}</li>`,
      )}
      ${networks.length === 0 && html`<li class="soft">No network is configured, so paid links can’t be paid.</li>`}
    </ul><//>
    ${channels.length > 0 && html`<${Card} title="Payment channels of all stores"><${ChannelTotals} totals=${channels} /><//>`}
    ${parked.total > 0 && html`<${Payments} title="Repeatedly deferred" payments=${parked.rows} />`}
    <${Payments} title="Pending payments" payments=${pending.rows} />
    <${Payments} title="Refunds due" payments=${refundsDue.rows} />
    <${Jobs} jobs=${jobs} />
  </div>`
}

function Jobs({ jobs }: { readonly jobs: readonly JobResponse[] }) {
  const nowMs = Date.now()
  const columns = [
    {
      key: 'name',
      title: 'Job',
      cell: ({ name }: JobResponse) =>
        html`<span class="shell-main-cell">${name[0]?.toUpperCase()}${name.slice(1)}</span>`,
    },
    {
      key: 'lastRun',
      title: 'Last run',
      cell: ({ lastRunAt }: JobResponse) =>
        lastRunAt === null ? '–' : html`<${Time} atMs=${msOf(lastRunAt)} nowMs=${nowMs} />`,
    },
    {
      key: 'duration',
      title: 'Took',
      align: 'end',
      cell: ({ lastDurationMs }: JobResponse) =>
        lastDurationMs === null ? '–' : html`<span class="number">${lastDurationMs} ms</span>`,
    },
    {
      key: 'error',
      title: 'Error',
      cell: ({ lastError }: JobResponse) =>
        html`<span class="operator-reason" dir="auto">${lastError ?? 'None'}</span>`,
    },
  ]
  return html`<${Card} title="Background jobs">
    <${Table} caption="Background jobs of this process" columns=${columns} rows=${jobs} />
  <//>`
}

/** Shows a problem. If its text begins with a network's id, it belongs to that network. */
function Problem({ problem }: { readonly problem: string }) {
  const [, network, words = problem] = /^((?:eip155|solana):\w+): ([\s\S]*)$/.exec(problem) ?? []
  return html`<li class="operator-fault">${network === undefined ? html`<${Badge} tone="bad">Gateway<//>` : html`<${NetworkBadge} network=${network} />`}
    <p class="shell-problem">${words}</p></li>`
}

const many = ({ rows, hasMore }: PaymentsResponse): string => `${rows.length}${hasMore ? '+' : ''}`

const Tile = ({ title, value }: { readonly title: string; readonly value: string }) =>
  html`<div class="shell-tile"><dt>${title}</dt><dd><span class="shell-figure">${value}</span></dd></div>`

function Payments({
  title,
  payments,
}: {
  readonly title: string
  readonly payments: readonly PaymentResponse[]
}) {
  const nowMs = Date.now()
  // Due refunds all have the same state. The gateway does not retry them, because the sellers send them.
  const areRefunds = payments.every(({ state }) => state === 'refund_due')
  const columns = [
    {
      key: 'since',
      title: 'Since',
      cell: ({ since }: PaymentResponse) =>
        html`<span class="shell-main-cell"><${Time} atMs=${msOf(since)} nowMs=${nowMs} /></span>`,
    },
    {
      key: 'amount',
      title: 'Amount',
      align: 'end',
      cell: ({ amount, network }: PaymentResponse) =>
        html`<span class="operator-owed"><span class="number">${amount}</span><${NetworkBadge} network=${network} /></span>`,
    },
    ...(areRefunds
      ? []
      : [
          {
            key: 'state',
            title: 'State',
            cell: ({ state, tries }: PaymentResponse) =>
              html`<span class="operator-tried"><span>${stateWords[state] ?? stepWords(state).words}</span>${tries > 0 && html`<span class="small soft">${tries === 1 ? 'tried once' : `tried ${tries} times`}</span>`}</span>`,
          },
        ]),
    {
      key: 'reason',
      title: areRefunds ? 'Why it is owed' : 'Why it waits',
      cell: ({ reason }: PaymentResponse) =>
        html`<span class="operator-reason" dir="auto">${reason ?? '–'}</span>`,
    },
    {
      key: 'tx',
      title: 'Transaction',
      cell: ({ txHash }: PaymentResponse) =>
        txHash ? html`<${Address} value=${txHash} what="transaction" />` : '–',
    },
    {
      key: 'payer',
      title: 'Payer',
      cell: ({ payer }: PaymentResponse) =>
        html`<${Address} value=${payer} what="payer’s wallet" canCopy=${false} />`,
    },
  ]
  return html`<${Card} title=${title}>
    <${Table} caption=${title} columns=${columns} rows=${payments} keyOf=${({ purchaseId }: PaymentResponse) => purchaseId}
      empty=${html`<p class="soft">None.</p>`} />
  <//>`
}

const stateWords: Readonly<Record<string, string>> = {
  settling: 'Being sent',
  pending: 'Sent, not confirmed yet',
}
