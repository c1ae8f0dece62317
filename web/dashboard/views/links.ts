import { useEffect, useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Badge, Empty } from '../../components/card.ts'
import { Field, Select } from '../../components/field.ts'
import { Amount } from '../../components/money.ts'
import { Table } from '../../components/table.ts'
import { html } from '../../html.ts'
import { Title } from '../../shell/frame.ts'
import { Load, useLoad } from '../../shell/load.ts'
import { More, type PageOf, usePages } from '../pages.ts'
import { useSeller } from '../seller.ts'
import type { LinkPage, LinkResponse } from '../types.ts'

export interface LinksProps {
  /** Search words. Empty for all links. */
  readonly q: string
  /** Filter by state. Empty for all states. */
  readonly state: string
}

const PER_PAGE = 50

const states = [
  { value: '', label: 'All' },
  { value: 'public', label: 'Listed' },
  { value: 'unlisted', label: 'Unlisted' },
  { value: 'stealth', label: 'Secret' },
  { value: 'suspended', label: 'Suspended' },
]

/** The store's links. The URL contains the search and the filter, so sellers can bookmark it. */
export function Links({ q, state }: LinksProps) {
  const { api, go } = useSeller()
  const [words, setWords] = useState(q)
  useEffect(() => setWords(q), [q])
  const filter = queryOf({ q, state })
  const pathOf = (cursor = '') => `/api/v1/links?${queryOf({ q, state, limit: String(PER_PAGE), cursor })}`
  const loaded = useLoad(() => api<LinkPage>('GET', pathOf()), [filter])
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
      html`<form class="shell-filters" role="search" onSubmit=${search}>
        <div class="shell-search"><${Field} id="q" label="Search" type="search" value=${words} onInput=${setWords} maxlength="200" autocapitalize="none" />
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

/** The first page and the pages that were loaded after it. */
function LinkPages({ first, pathOf, isFiltered }: LinkPagesProps) {
  const { api } = useSeller()
  const pages = usePages(rowsOf(first), async (cursor) => rowsOf(await api<LinkPage>('GET', pathOf(cursor))))
  if (pages.rows.length === 0) return isFiltered ? noneFound : empty
  return html`<div class="stack"><${LinkTable} links=${pages.rows} /><${More} of=${pages} /></div>`
}

const rowsOf = ({ links, nextCursor }: LinkPage): PageOf<LinkResponse> => ({ rows: links, nextCursor })

const noneFound = html`<${Empty} title="No links match"><${Button} href="/dashboard/links">Show all<//><//>`
const empty = html`<${Empty} title="No links yet">
  <p>A link is an address that buyers pay to call. Create a link to your API and set a price.</p>
  <div class="row"><${Button} kind="primary" href="/dashboard/links/new">Create your first link<//>
    <${Button} href="/dashboard/links/import">Import an OpenAPI document<//></div>
<//>`

function LinkTable({ links }: { readonly links: readonly LinkResponse[] }) {
  const hasStats = links.some(({ stats }) => stats !== undefined)
  const statItems = [
    {
      key: 'calls',
      title: 'Calls, 30 days',
      align: 'end',
      cell: ({ stats }: LinkResponse) => stats?.calls ?? 0,
    },
    {
      key: 'revenue',
      title: 'Revenue, 30 days',
      align: 'end',
      cell: ({ stats }: LinkResponse) => html`<${Amount} value=${stats?.revenue ?? '0'} />`,
    },
  ]
  const columns = [
    {
      key: 'title',
      title: 'Link',
      cell: ({ id, title, slug, isStealth }: LinkResponse) =>
        html`<a class="shell-main-cell shell-text" href=${`/dashboard/links/${id}`} dir="auto">${title}</a>
          <span class="soft small mono">${isStealth ? 'secret address' : slug}</span>`,
    },
    { key: 'state', title: 'State', cell: (link: LinkResponse) => html`<${LinkState} link=${link} />` },
    {
      key: 'price',
      title: 'Price',
      align: 'end',
      cell: ({ isPaid, price, priceMin, priceMax }: LinkResponse) =>
        isPaid ? html`<${Amount} value=${priceMin ?? price} upTo=${priceMax} />` : 'Free',
    },
    ...(hasStats ? statItems : []),
  ]
  return html`<${Table} caption="Links" columns=${columns} rows=${links} keyOf=${({ id }: LinkResponse) => id} />`
}

/** Whether a link can be bought, and whether it is listed. */
export function LinkState({ link }: { readonly link: LinkResponse }) {
  if (!link.isActive) return html`<${Badge}>Deleted<//>`
  if (link.suspension !== null) return html`<${Badge} tone="bad">Suspended<//>`
  if (link.isStealth) return html`<${Badge} tone="info">Secret<//>`
  return link.isPublic ? html`<${Badge} tone="good">Listed<//>` : html`<${Badge}>Unlisted<//>`
}
