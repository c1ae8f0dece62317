import { useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Empty } from '../components/card.ts'
import { Field } from '../components/field.ts'
import { Amount, NetworkBadge } from '../components/money.ts'
import { Table } from '../components/table.ts'
import { Time } from '../components/time.ts'
import { html } from '../html.ts'
import type { ApiClient } from '../shell/api.ts'
import { Title } from '../shell/frame.ts'
import { Load, useLoad } from '../shell/load.ts'
import { msOf } from '../shell/words.ts'

interface StoreResponse {
  readonly id: string
  readonly username: string
  readonly displayName: string
  readonly createdAt: string
  readonly links: number
  readonly purchases: number
  readonly revenue: string
  readonly feesOwed: readonly {
    readonly currency: string
    readonly network: string
    readonly amount: string
  }[]
  readonly lastSaleAt: string | null
}

interface StoresResponse {
  readonly rows: readonly StoreResponse[]
  readonly next: string | null
}

export interface StoresProps {
  readonly api: ApiClient
  readonly search: string
  /** Last username of the preceding page. Empty for the first page. */
  readonly after: string
  readonly go: (path: string) => void
}

const addressOf = (search: string, after = ''): string => {
  const query = new URLSearchParams([
    ...(search ? [['search', search]] : []),
    ...(after ? [['after', after]] : []),
  ] as string[][]).toString()
  return `/operator/stores${query && `?${query}`}`
}

/** The stores. The URL contains the search and the page, so operators can bookmark it. */
export function Stores({ api, search, after, go }: StoresProps) {
  const [text, setText] = useState(search)
  const stores = useLoad(() => api<StoresResponse>('GET', `/api${addressOf(search, after)}`), [search, after])
  const find = (event: Event) => {
    event.preventDefault()
    go(addressOf(text.trim()))
  }
  return html`<div class="stack">
    <${Title}>Stores<//>
    <p class="soft">Purchases and revenue are of the last 30 days.</p>
    <form class="shell-search" role="search" onSubmit=${find}>
      <${Field} id="search" label="Name" type="search" value=${text} maxlength="64" onInput=${setText} />
      <${Button} type="submit">Search<//>
    </form>
    <${Load} of=${stores}>${({ rows, next }: StoresResponse) =>
      html`<div class="stack">
        <${Table} caption="Stores" columns=${columns} rows=${rows} keyOf=${({ id }: StoreResponse) => id} empty=${none(search)} />
        <nav class="pagination" aria-label="Pages">
          ${after !== '' ? html`<${Button} size="small" href=${addressOf(search)}>First page<//>` : html`<span></span>`}
          ${next !== null ? html`<${Button} size="small" rel="next" href=${addressOf(search, next)}>Next<//>` : html`<span></span>`}
        </nav>
      </div>`}<//>
  </div>`
}

const none = (search: string) =>
  search === ''
    ? html`<${Empty} title="No stores yet"><p>Sellers open a store by signing in with a wallet, or you create a store with <code>tollgate store create</code>.</p><//>`
    : html`<${Empty} title="No stores match"><p>The search covers usernames and display names.</p><${Button} href="/operator/stores">Show all<//><//>`

const columns = [
  {
    key: 'store',
    title: 'Store',
    cell: ({ username, displayName }: StoreResponse) =>
      html`<span class="shell-main-cell"><a class="shell-link" href=${`/${username}`} dir="auto">${displayName || username}</a></span>
        ${displayName !== '' && displayName !== username && html`<span class="soft">${username}</span>`}`,
  },
  { key: 'links', title: 'Links', align: 'end', cell: ({ links }: StoreResponse) => links },
  { key: 'purchases', title: 'Purchases', align: 'end', cell: ({ purchases }: StoreResponse) => purchases },
  {
    key: 'revenue',
    title: 'Revenue',
    align: 'end',
    cell: ({ revenue }: StoreResponse) => html`<${Amount} value=${revenue} />`,
  },
  {
    key: 'owed',
    title: 'Fees owed',
    align: 'end',
    cell: ({ feesOwed }: StoreResponse) =>
      feesOwed.length === 0
        ? '–'
        : html`<span class="operator-owed">${feesOwed.map(
            ({ currency, network, amount }) =>
              html`<span><${Amount} value=${amount} currency=${currency} />${feesOwed.length > 1 && html` <${NetworkBadge} network=${network} />`}</span>`,
          )}</span>`,
  },
  {
    key: 'last',
    title: 'Last sale',
    cell: ({ lastSaleAt }: StoreResponse) =>
      lastSaleAt === null ? '–' : html`<${Time} atMs=${msOf(lastSaleAt)} nowMs=${Date.now()} />`,
  },
]
