import { Button } from '../components/button.ts'
import { Badge, Card } from '../components/card.ts'
import { Address, Amount, NetworkBadge } from '../components/money.ts'
import { Table } from '../components/table.ts'
import { Time } from '../components/time.ts'
import { html } from '../html.ts'
import { ChannelTotals, type ChannelTotalsResponse } from '../shell/channelTotals.ts'
import { Fault, useAction, useLoad } from '../shell/load.ts'
import { msOf } from '../shell/words.ts'
import { More, type PageOf, saveCsv, usePages } from './pages.ts'
import { useSeller } from './seller.ts'

interface ChannelResponse {
  readonly id: string
  readonly payer: string
  readonly network: string
  readonly currency: string
  readonly calls: number
  readonly earned: string
  readonly claimed: string
  readonly unclaimed: string
  readonly writtenOff: string
  readonly withdrawing: string
  readonly problem: string | null
  readonly openedAt: string
}

interface ChannelPage {
  readonly totals: readonly ChannelTotalsResponse[]
  readonly channels: readonly ChannelResponse[]
  readonly nextCursor: string | null
}

const PER_PAGE = 5

/** The payment channels of a store. Empty for a store that has none. */
export function ChannelsCard() {
  const { api } = useSeller()
  const { data } = useLoad(() => api<ChannelPage>('GET', `/api/v1/channels?limit=${PER_PAGE}`), [])
  return data !== undefined && data.channels.length > 0 && html`<${Channels} first=${data} />`
}

function Channels({ first }: { readonly first: ChannelPage }) {
  const { api, csrfToken } = useSeller()
  const csv = useAction()
  const save = () => csv.run(() => saveCsv('/api/v1/channels', 'channels.csv', csrfToken))
  const pages = usePages(rowsOf(first), async (cursor) =>
    rowsOf(
      await api<ChannelPage>(
        'GET',
        `/api/v1/channels?limit=${PER_PAGE}&cursor=${encodeURIComponent(cursor)}`,
      ),
    ),
  )
  return html`<${Card} title="Payment channels" actions=${html`<${Button} size="small" isBusy=${csv.isBusy} onClick=${save} aria-label="CSV of the channels">CSV<//>`}>
    <p class="soft small shell-above">Buyers deposit once and pay each call from the deposit. The gateway claims what you earned and pays it to your wallet.</p>
    <${Fault} of=${csv} />
    <${ChannelTotals} totals=${first.totals} />
    <${Table} caption="Payment channels" columns=${columns()} rows=${pages.rows} keyOf=${({ id }: ChannelResponse) => id} />
    <${More} of=${pages} />
  <//>`
}

const rowsOf = ({ channels, nextCursor }: ChannelPage): PageOf<ChannelResponse> => ({
  rows: channels,
  nextCursor,
})

function columns() {
  const nowMs = Date.now()
  const amount = (pick: (one: ChannelResponse) => string) => (one: ChannelResponse) =>
    html`<${Amount} value=${pick(one)} currency=${one.currency} />`
  return [
    {
      key: 'buyer',
      title: 'Buyer',
      cell: (one: ChannelResponse) =>
        html`<span class="shell-main-cell"><${Address} value=${one.payer} what="buyer’s wallet" /></span> <${State} of=${one} />`,
    },
    {
      key: 'network',
      title: 'Network',
      cell: ({ network }: ChannelResponse) => html`<${NetworkBadge} network=${network} />`,
    },
    { key: 'calls', title: 'Calls', align: 'end', cell: ({ calls }: ChannelResponse) => calls },
    { key: 'earned', title: 'Earned', align: 'end', cell: amount(({ earned }) => earned) },
    { key: 'claimed', title: 'Claimed', align: 'end', cell: amount(({ claimed }) => claimed) },
    { key: 'unclaimed', title: 'Unclaimed', align: 'end', cell: amount(({ unclaimed }) => unclaimed) },
    {
      key: 'opened',
      title: 'Opened',
      cell: ({ openedAt }: ChannelResponse) => html`<${Time} atMs=${msOf(openedAt)} nowMs=${nowMs} />`,
    },
  ]
}

/** What is unusual about a channel. */
function State({ of: { writtenOff, withdrawing, problem, currency } }: { readonly of: ChannelResponse }) {
  if (Number(writtenOff) > 0)
    return html`<${Badge} tone="bad">Written off: <${Amount} value=${writtenOff} currency=${currency} /><//>`
  if (problem !== null)
    return html`<${Badge} tone="warn">Cannot be claimed<//> <span class="soft small" dir="auto">${problem}</span>`
  if (Number(withdrawing) > 0) return html`<${Badge} tone="warn">Being withdrawn<//>`
  return null
}
