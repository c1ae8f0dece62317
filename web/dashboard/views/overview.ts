import { useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Badge, Card, Empty, Skeleton } from '../../components/card.ts'
import { BarChart, ticksOf } from '../../components/charts.ts'
import { Amount } from '../../components/money.ts'
import { dayOf, exactTime, hourOf, Time } from '../../components/time.ts'
import { type Children, html } from '../../html.ts'
import { Title } from '../../shell/frame.ts'
import { Load, useLoad } from '../../shell/load.ts'
import { msOf } from '../../shell/words.ts'
import { PurchaseTable } from '../purchaseTable.ts'
import { useSeller } from '../seller.ts'
import type { LinkPage, PurchasePage, PurchaseResponse } from '../types.ts'

/** The fields of `GET /api/v1/stats/timeseries` that the overview uses. */
interface StatsResponse {
  readonly total: TotalsResponse
  readonly previous: TotalsResponse | null
  readonly points: readonly { readonly at: string; readonly revenue: string; readonly purchases: number }[]
}

interface TotalsResponse {
  readonly purchases: number
  readonly buyers: number
  readonly revenue: string
  /** Purchases in percent of 402 responses. Null without 402 responses. */
  readonly conversion: number | null
}

/** The periods that the overview can show. */
const periods = {
  '24h': { title: '24 hours', query: 'period=24h&bucket=hour', hasHours: true },
  '7d': { title: '7 days', query: 'period=7d&bucket=day', hasHours: false },
  '30d': { title: '30 days', query: 'period=30d&bucket=day', hasHours: false },
} as const

type Period = keyof typeof periods

/** The change in words: `+12 %`, `−3 %`. Undefined if there is nothing to compare with. */
export function changeOf(now: number, before: number | null | undefined): string | undefined {
  if (before == null || before === 0) return
  const percent = Math.round((now / before - 1) * 100)
  return percent === 0 ? '±0 %' : `${percent > 0 ? '+' : '−'}${Math.abs(percent)} %`
}

interface AttentionResponse {
  readonly kind: string
  readonly id: string | null
  readonly title: string
  readonly detail: string
  readonly since: string | null
}

interface Newest {
  readonly purchases: readonly PurchaseResponse[]
  /** Whether the store has any links. */
  readonly hasLinks: boolean
}

/** The overview. It shows the sales and what needs the seller's attention. */
export function Overview() {
  const { api } = useSeller()
  const [period, setPeriod] = useState<Period>('7d')
  const attention = useLoad(
    () => api<{ items: readonly AttentionResponse[] }>('GET', '/api/dashboard/attention'),
    [],
  )
  const stats = useLoad(
    () => api<StatsResponse>('GET', `/api/v1/stats/timeseries?${periods[period].query}`),
    [period],
  )
  const newest = useLoad<Newest>(async () => {
    const { purchases } = await api<PurchasePage>('GET', '/api/v1/purchases?limit=8')
    if (purchases.length > 0) return { purchases, hasLinks: true }
    const { links } = await api<LinkPage>('GET', '/api/v1/links?limit=1')
    return { purchases, hasLinks: links.length > 0 }
  }, [])
  const choice = html`<div class="shell-choice" role="group" aria-label="Period">
    ${(Object.keys(periods) as Period[]).map(
      (one) =>
        html`<button type="button" aria-pressed=${one === period ? 'true' : 'false'} onClick=${() => setPeriod(one)}>${periods[one].title}</button>`,
    )}
  </div>`
  return html`<div class="stack shell-overview">
    <${Title} actions=${choice}>Overview<//>
    <${Load} of=${attention} skeleton=${html`<${Skeleton} count=${1} />`}>${({ items }: { items: readonly AttentionResponse[] }) => html`<${Waiting} items=${items} />`}<//>
    <${Load} of=${stats} skeleton=${html`<${Skeleton} count=${3} isTall=${true} />`}>${(data: StatsResponse) => html`<${Stats} stats=${data} period=${period} />`}<//>
    <${Card} title="Latest purchases" actions=${html`<a href="/dashboard/purchases">All purchases</a>`}>
      <${Load} of=${newest}>${({ purchases, hasLinks }: Newest) =>
        html`<${PurchaseTable} purchases=${purchases} empty=${hasLinks ? noSales : noLinks} />`}<//>
    <//>
  </div>`
}

const noLinks = html`<${Empty} title="You sell nothing yet">
  <p>Create a link to your API and set a price. Buyers then pay per call.</p>
  <${Button} kind="primary" href="/dashboard/links/new">Create your first link<//>
<//>`
const noSales = html`<${Empty} title="No purchases yet">
  <p>Share the address of a link, or list the link in the marketplace.</p>
  <${Button} href="/dashboard/links">Go to your links<//>
<//>`

const pathOf = ({ kind, id }: AttentionResponse): string => {
  if (kind === 'refund_due')
    return id === null ? '/dashboard/purchases?status=refund_due' : `/dashboard/purchases/${id}`
  if (kind === 'link_suspended')
    return id === null ? '/dashboard/links?state=suspended' : `/dashboard/links/${id}`
  return kind === 'payout' ? '/dashboard/profile' : `/dashboard/webhooks/${id}`
}

/** The items that need the seller's attention. If there are none, a line says so. */
function Waiting({ items }: { readonly items: readonly AttentionResponse[] }) {
  if (items.length === 0)
    return html`<p class="shell-well"><span class="shell-dot good" aria-hidden="true"></span>Nothing needs your attention.</p>`
  return html`<section class="shell-waiting" aria-label="Needs your attention">
    <h2>${items.length === 1 ? 'One item needs your attention' : `${items.length} items need your attention`}</h2>
    <ul>${items.map(
      (item) => html`<li>
        <a href=${pathOf(item)} dir="auto">${item.title}</a>
        <p dir="auto">${item.detail}</p>
        ${item.since !== null && html`<span class="small"><${Time} atMs=${msOf(item.since)} nowMs=${Date.now()} /></span>`}
      </li>`,
    )}</ul>
  </section>`
}

interface StatsProps {
  readonly stats: StatsResponse
  readonly period: Period
}

function Stats({ stats: { total, previous, points }, period }: StatsProps) {
  const { title, hasHours } = periods[period]
  const money = (value: string) => html`<${Amount} value=${cents(value)} />`
  const bars = points.map(({ at, revenue }) => ({
    label: `${exactTime(msOf(at))}: ${cents(revenue)} USDC`,
    value: Number(revenue),
  }))
  const ends = points.map(({ at }) => (hasHours ? hourOf(msOf(at)) : dayOf(msOf(at))))
  return html`<div class="stack">
    <dl class="shell-tiles">
      <${Tile} title="Revenue" value=${money(total.revenue)} now=${Number(total.revenue)}
        before=${previous && Number(previous.revenue)} was=${previous && cents(previous.revenue)} />
      <${Tile} title="Purchases" value=${total.purchases} now=${total.purchases} before=${previous?.purchases} />
      <${Tile} title="Conversion" value=${percent(total.conversion)} now=${total.conversion ?? 0}
        before=${previous?.conversion} was=${percent(previous?.conversion ?? null)} />
      <${Tile} title="Buyers" value=${total.buyers} now=${total.buyers} before=${previous?.buyers} />
    </dl>
    <${Card} title="Revenue, USDC"><${BarChart} label=${`Revenue, ${title}: ${cents(total.revenue)} USDC`} bars=${bars} ends=${ticksOf(ends)} valueText=${(value: number) => String(value)} /><//>
  </div>`
}

interface TileProps {
  readonly title: string
  readonly value: Children
  readonly now: number
  /** Value in the preceding period. */
  readonly before: number | null | undefined
  /** The formatted value of the preceding period. Default: the number. */
  readonly was?: string | null
}

/** A number, compared with the preceding period. */
function Tile({ title, value, now, before, was }: TileProps) {
  const change = changeOf(now, before)
  const tone = change?.startsWith('+') ? 'good' : change?.startsWith('−') ? 'warn' : 'plain'
  return html`<div class="shell-tile">
    <dt>${title}</dt>
    <dd><span class="shell-figure">${value}</span>
      <span class="small soft">${change === undefined ? 'no earlier data' : html`<${Badge} tone=${tone}>${change}<//> from ${was ?? before}`}</span></dd>
  </div>`
}

const percent = (value: number | null): string =>
  value === null ? '–' : `${value < 10 ? value.toFixed(1) : Math.round(value)}\u00a0%`

/** An amount with two decimals. Below one, it has more decimals. */
const cents = (value: string): string => {
  const number = Number(value)
  return number === 0 || number >= 0.1 ? number.toFixed(2) : value.replace(/0+$/, '')
}
