import { useEffect, useState } from 'preact/hooks'
import { Amount } from '../../components/amount.ts'
import { Badge } from '../../components/badge.ts'
import { Button } from '../../components/button.ts'
import { Empty } from '../../components/empty.ts'
import { Field } from '../../components/field.ts'
import { Select } from '../../components/select.ts'
import { Table } from '../../components/table.ts'
import { Load, useLoad } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { html } from '../../html.ts'
import { More, type PageOf, usePages } from '../pages.ts'
import { useSeller } from '../seller.ts'
import type { LinkAnswer, LinkPage } from '../types.ts'

export interface LinksProps {
  /** Words that links have; empty for all. */
  readonly q: string
  /** Links in this state; empty for all. */
  readonly state: string
}

const PER_PAGE = 50

const states = [
  { value: '', label: 'All of them' },
  { value: 'public', label: 'Listed' },
  { value: 'unlisted', label: 'Unlisted' },
  { value: 'stealth', label: 'Secret' },
  { value: 'suspended', label: 'Suspended' },
]

/** What the store sells: is it up, is it bought? The address says what is shown, so that it can be kept. */
export function Links({ q, state }: LinksProps) {
  const { ask, go } = useSeller()
  const [words, setWords] = useState(q)
  useEffect(() => setWords(q), [q])
  const filter = queryOf({ q, state })
  const pathOf = (cursor = '') => `/api/v1/links?${queryOf({ q, state, limit: String(PER_PAGE), cursor })}`
  const loaded = useLoad(() => ask<LinkPage>('GET', pathOf()), [filter])
  const show = (change: Partial<LinksProps>) => {
    const query = queryOf({ q: words.trim(), state, ...change })
    go(`/dashboard/links${query && `?${query}`}`)
  }
  const search = (event: Event) => {
    event.preventDefault()
    show({})
  }
  const isFirst = filter === '' && loaded.data?.links.length === 0
  return html`<div class="stack">
    <${Title} actions=${html`<${Button} href="/dashboard/links/import">Import<//><${Button} kind="primary" href="/dashboard/links/new">New link<//>`}>Links<//>
    ${
      !isFirst &&
      html`<form class="desk-filters" role="search" onSubmit=${search}>
        <div class="desk-search"><${Field} id="q" label="Search" type="search" value=${words} onInput=${setWords} maxlength="200" autocapitalize="none" />
          <${Button} type="submit">Search<//></div>
        <${Select} id="state" label="State" value=${state} options=${states} onChange=${(value: string) => show({ state: value })} />
      </form>`
    }
    <${Load} of=${loaded}>${(page: LinkPage) =>
      html`<${LinkPages} key=${filter} first=${page} pathOf=${pathOf} isFiltered=${filter !== ''} />`}<//>
  </div>`
}

const queryOf = (given: object): string =>
  new URLSearchParams(Object.entries(given).filter(([, value]) => value !== '')).toString()

interface LinkPagesProps {
  readonly first: LinkPage
  readonly pathOf: (cursor: string) => string
  readonly isFiltered: boolean
}

/** A page, and below it those that were asked for since. */
function LinkPages({ first, pathOf, isFiltered }: LinkPagesProps) {
  const { ask } = useSeller()
  const pages = usePages(rowsOf(first), async (cursor) => rowsOf(await ask<LinkPage>('GET', pathOf(cursor))))
  if (pages.rows.length === 0) return isFiltered ? noneFound : empty
  return html`<div class="stack"><${LinkTable} links=${pages.rows} /><${More} of=${pages} /></div>`
}

const rowsOf = ({ links, nextCursor }: LinkPage): PageOf<LinkAnswer> => ({ rows: links, nextCursor })

const noneFound = html`<${Empty} title="No link is like this"><${Button} href="/dashboard/links">Show all<//><//>`
const empty = html`<${Empty} title="No links yet">
  <p>A link is an address that buyers pay to call. Point one at an API of yours and name a price.</p>
  <div class="row"><${Button} kind="primary" href="/dashboard/links/new">Make the first link<//>
    <${Button} href="/dashboard/links/import">Import an OpenAPI document<//></div>
<//>`

function LinkTable({ links }: { readonly links: readonly LinkAnswer[] }) {
  const hasStats = links.some(({ stats }) => stats !== undefined)
  const figures = [
    {
      key: 'calls',
      title: 'Calls, 30 days',
      align: 'end',
      cell: ({ stats }: LinkAnswer) => stats?.calls ?? 0,
    },
    {
      ...{ key: 'revenue', title: 'Revenue, 30 days', align: 'end' },
      cell: ({ stats }: LinkAnswer) => html`<${Amount} value=${stats?.revenue ?? '0'} />`,
    },
  ]
  const columns = [
    {
      ...{ key: 'title', title: 'Link' },
      cell: ({ id, title, slug, isStealth }: LinkAnswer) =>
        html`<a class="desk-main-cell desk-text" href=${`/dashboard/links/${id}`} dir="auto">${title}</a>
          <span class="soft small mono">${isStealth ? 'secret address' : slug}</span>`,
    },
    { key: 'state', title: 'State', cell: (link: LinkAnswer) => html`<${LinkState} link=${link} />` },
    {
      ...{ key: 'price', title: 'Price', align: 'end' },
      cell: ({ isPaid, price }: LinkAnswer) => (isPaid ? html`<${Amount} value=${price} />` : 'Free'),
    },
    ...(hasStats ? figures : []),
  ]
  return html`<${Table} caption="Links" columns=${columns} rows=${links} keyOf=${({ id }: LinkAnswer) => id} />`
}

/** Whether a link can be bought, and by whom it is found. */
export function LinkState({ link }: { readonly link: LinkAnswer }) {
  if (!link.isActive) return html`<${Badge}>Deleted<//>`
  if (link.suspension !== null) return html`<${Badge} tone="bad">Suspended<//>`
  if (link.isStealth) return html`<${Badge} tone="info">Secret<//>`
  return link.isPublic ? html`<${Badge} tone="good">Listed<//>` : html`<${Badge}>Unlisted<//>`
}
