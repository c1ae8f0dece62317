import { useState } from 'preact/hooks'
import { Amount } from '../../components/amount.ts'
import { ticksOf } from '../../components/axes.ts'
import { Badge } from '../../components/badge.ts'
import { BarChart } from '../../components/barChart.ts'
import { Button } from '../../components/button.ts'
import { Card } from '../../components/card.ts'
import { Empty } from '../../components/empty.ts'
import { Skeleton } from '../../components/skeleton.ts'
import { dayOf, exactTime, hourOf, Time } from '../../components/time.ts'
import { Load, useLoad } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { msOf } from '../../desk/words.ts'
import { type Children, html } from '../../html.ts'
import { changeOf, type FiguresAnswer, type Period, periods } from '../figures.ts'
import { PurchaseTable } from '../purchaseTable.ts'
import { useSeller } from '../seller.ts'
import type { LinkPage, PurchaseAnswer, PurchasePage } from '../types.ts'

interface AttentionAnswer {
  readonly kind: string
  readonly id: string | null
  readonly title: string
  readonly detail: string
  readonly since: string | null
}

interface Newest {
  readonly purchases: readonly PurchaseAnswer[]
  /** Whether the store sells anything at all. */
  readonly hasLinks: boolean
}

/** How is it going, and what needs me? */
export function Overview() {
  const { ask } = useSeller()
  const [period, setPeriod] = useState<Period>('7d')
  const attention = useLoad(
    () => ask<{ items: readonly AttentionAnswer[] }>('GET', '/api/dashboard/attention'),
    [],
  )
  const figures = useLoad(
    () => ask<FiguresAnswer>('GET', `/api/v1/stats/timeseries?${periods[period].query}`),
    [period],
  )
  const newest = useLoad<Newest>(async () => {
    const { purchases } = await ask<PurchasePage>('GET', '/api/v1/purchases?limit=8')
    if (purchases.length > 0) return { purchases, hasLinks: true }
    const { links } = await ask<LinkPage>('GET', '/api/v1/links?limit=1')
    return { purchases, hasLinks: links.length > 0 }
  }, [])
  const choice = html`<div class="desk-choice" role="group" aria-label="Period">
    ${(Object.keys(periods) as Period[]).map(
      (one) =>
        html`<button type="button" aria-pressed=${one === period ? 'true' : 'false'} onClick=${() => setPeriod(one)}>${periods[one].title}</button>`,
    )}
  </div>`
  return html`<div class="stack desk-overview">
    <${Title} actions=${choice}>Overview<//>
    <${Load} of=${attention} skeleton=${html`<${Skeleton} count=${1} />`}>${({ items }: { items: readonly AttentionAnswer[] }) => html`<${Waiting} items=${items} />`}<//>
    <${Load} of=${figures} skeleton=${html`<${Skeleton} count=${3} isTall=${true} />`}>${(data: FiguresAnswer) => html`<${Figures} figures=${data} period=${period} />`}<//>
    <${Card} title="Newest purchases" actions=${html`<a href="/dashboard/purchases">All purchases</a>`}>
      <${Load} of=${newest}>${({ purchases, hasLinks }: Newest) =>
        html`<${PurchaseTable} purchases=${purchases} empty=${hasLinks ? noSales : noLinks} />`}<//>
    <//>
  </div>`
}

const noLinks = html`<${Empty} title="You sell nothing yet">
  <p>Point a link at an API of yours and name a price: buyers pay per call.</p>
  <${Button} kind="primary" href="/dashboard/links/new">Make the first link<//>
<//>`
const noSales = html`<${Empty} title="Nothing was bought yet">
  <p>Give the address of a link to somebody, or list it in the marketplace.</p>
  <${Button} href="/dashboard/links">Look at your links<//>
<//>`

const pathOf = ({ kind, id }: AttentionAnswer): string => {
  if (kind === 'refund_due')
    return id === null ? '/dashboard/purchases?status=refund_due' : `/dashboard/purchases/${id}`
  if (kind === 'link_suspended')
    return id === null ? '/dashboard/links?state=suspended' : `/dashboard/links/${id}`
  return kind === 'payout' ? '/dashboard/profile' : `/dashboard/webhooks/${id}`
}

/** What waits for the seller; a line that says so where nothing does. */
function Waiting({ items }: { readonly items: readonly AttentionAnswer[] }) {
  if (items.length === 0)
    return html`<p class="desk-well"><span class="desk-dot good" aria-hidden="true"></span>Nothing needs you now.</p>`
  return html`<section class="desk-waiting" aria-label="What needs you">
    <h2>${items.length === 1 ? 'One thing needs you' : `${items.length} things need you`}</h2>
    <ul>${items.map(
      (item) => html`<li>
        <a href=${pathOf(item)} dir="auto">${item.title}</a>
        <p dir="auto">${item.detail}</p>
        ${item.since !== null && html`<span class="small"><${Time} atMs=${msOf(item.since)} nowMs=${Date.now()} /></span>`}
      </li>`,
    )}</ul>
  </section>`
}

interface FiguresProps {
  readonly figures: FiguresAnswer
  readonly period: Period
}

function Figures({ figures: { total, previous, points }, period }: FiguresProps) {
  const { title, hasHours } = periods[period]
  const money = (value: string) => html`<${Amount} value=${cents(value)} />`
  const bars = points.map(({ at, revenue }) => ({
    label: `${exactTime(msOf(at))}: ${cents(revenue)} USDC`,
    value: Number(revenue),
  }))
  const ends = points.map(({ at }) => (hasHours ? hourOf(msOf(at)) : dayOf(msOf(at))))
  return html`<div class="stack">
    <dl class="desk-tiles">
      <${Tile} title="Revenue" value=${money(total.revenue)} now=${Number(total.revenue)}
        before=${previous && Number(previous.revenue)} was=${previous && cents(previous.revenue)} />
      <${Tile} title="Purchases" value=${total.purchases} now=${total.purchases} before=${previous?.purchases} />
      <${Tile} title="Price seen → paid" value=${percent(total.conversion)} now=${total.conversion ?? 0}
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
  /** In the period before. */
  readonly before: number | null | undefined
  /** The same as it is written. Default: the number. */
  readonly was?: string | null
}

/** A figure, and how it was before. */
function Tile({ title, value, now, before, was }: TileProps) {
  const change = changeOf(now, before)
  const tone = change?.startsWith('+') ? 'good' : change?.startsWith('−') ? 'warn' : 'plain'
  return html`<div class="desk-tile">
    <dt>${title}</dt>
    <dd><span class="desk-figure">${value}</span>
      <span class="small soft">${change === undefined ? 'none before' : html`<${Badge} tone=${tone}>${change}<//> from ${was ?? before}`}</span></dd>
  </div>`
}

const percent = (value: number | null): string =>
  value === null ? '–' : `${value < 10 ? value.toFixed(1) : Math.round(value)}\u00a0%`

/** Two places for a sum, more for one that has nothing before them. */
const cents = (value: string): string => {
  const number = Number(value)
  return number === 0 || number >= 0.1 ? number.toFixed(2) : value.replace(/0+$/, '')
}
