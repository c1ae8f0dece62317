import { useState } from 'preact/hooks'
import { Amount } from '../components/amount.ts'
import { Button } from '../components/button.ts'
import { Empty } from '../components/empty.ts'
import { Field } from '../components/field.ts'
import { NetworkBadge } from '../components/networkBadge.ts'
import { Table } from '../components/table.ts'
import { Time } from '../components/time.ts'
import type { ApiClient } from '../desk/api.ts'
import { Load, useLoad } from '../desk/load.ts'
import { Title } from '../desk/title.ts'
import { msOf } from '../desk/words.ts'
import { html } from '../html.ts'

interface StoreAnswer {
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

interface StoresAnswer {
  readonly rows: readonly StoreAnswer[]
  readonly next: string | null
}

export interface StoresProps {
  readonly ask: ApiClient
  readonly search: string
  /** The last username of the page before; empty for the first page. */
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

/** Who sells here. The address says what is shown, so that it can be kept. */
export function Stores({ ask, search, after, go }: StoresProps) {
  const [text, setText] = useState(search)
  const stores = useLoad(() => ask<StoresAnswer>('GET', `/api${addressOf(search, after)}`), [search, after])
  const find = (event: Event) => {
    event.preventDefault()
    go(addressOf(text.trim()))
  }
  return html`<div class="stack">
    <${Title}>Stores<//>
    <p class="soft">Sales and revenue are of the last 30 days.</p>
    <form class="desk-search" role="search" onSubmit=${find}>
      <${Field} id="search" label="Name" type="search" value=${text} maxlength="64" onInput=${setText} />
      <${Button} type="submit">Search<//>
    </form>
    <${Load} of=${stores}>${({ rows, next }: StoresAnswer) =>
      html`<div class="stack">
        <${Table} caption="Stores" columns=${columns} rows=${rows} keyOf=${({ id }: StoreAnswer) => id} empty=${none(search)} />
        <nav class="pagination" aria-label="Pages">
          ${after !== '' ? html`<${Button} size="small" href=${addressOf(search)}>First page<//>` : html`<span></span>`}
          ${next !== null ? html`<${Button} size="small" rel="next" href=${addressOf(search, next)}>Next<//>` : html`<span></span>`}
        </nav>
      </div>`}<//>
  </div>`
}

const none = (search: string) =>
  search === ''
    ? html`<${Empty} title="Nobody sells here yet"><p>Sellers open a store by signing in with a wallet, or you open one: <code>tollgate store create</code>.</p><//>`
    : html`<${Empty} title="No store is called so"><p>The search looks in usernames and display names.</p><${Button} href="/operator/stores">Show all<//><//>`

const columns = [
  {
    key: 'store',
    title: 'Store',
    cell: ({ username, displayName }: StoreAnswer) =>
      html`<span class="desk-main-cell"><a class="desk-link" href=${`/${username}`} dir="auto">${displayName || username}</a></span>
        ${displayName !== '' && displayName !== username && html`<span class="soft">${username}</span>`}`,
  },
  { key: 'links', title: 'Links', align: 'end', cell: ({ links }: StoreAnswer) => links },
  { key: 'purchases', title: 'Purchases', align: 'end', cell: ({ purchases }: StoreAnswer) => purchases },
  {
    key: 'revenue',
    title: 'Revenue',
    align: 'end',
    cell: ({ revenue }: StoreAnswer) => html`<${Amount} value=${revenue} />`,
  },
  {
    key: 'owed',
    title: 'Fees owed',
    align: 'end',
    cell: ({ feesOwed }: StoreAnswer) =>
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
    cell: ({ lastSaleAt }: StoreAnswer) =>
      lastSaleAt === null ? '–' : html`<${Time} atMs=${msOf(lastSaleAt)} nowMs=${Date.now()} />`,
  },
]
