import { Button } from '../../components/button.ts'
import { Empty } from '../../components/empty.ts'
import { Select } from '../../components/select.ts'
import { Fault, Load, useAction, useLoad } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { html } from '../../html.ts'
import { saveCsv } from '../csv.ts'
import { More, type PageOf, usePages } from '../pages.ts'
import { PurchaseTable } from '../purchaseTable.ts'
import { useSeller } from '../seller.ts'
import type { LinkAnswer, LinkPage, PurchaseAnswer, PurchasePage } from '../types.ts'

export interface PurchasesProps {
  /** Of this link; empty for all. */
  readonly linkId: string
  /** In this state; empty for all. */
  readonly status: string
}

const PER_PAGE = 25
/** Links that can be chosen from: who has more finds one among the links. */
const NAMED_LINKS = 50

const statuses = [
  { value: '', label: 'All of them' },
  { value: 'refund_due', label: 'Refund due' },
  { value: 'refunded', label: 'Refunded' },
  { value: 'reorged', label: 'Left the chain' },
]

/** What was bought, by whom, and how it stands. The address says what is shown, so that it can be kept. */
export function Purchases({ linkId, status }: PurchasesProps) {
  const { ask, csrfToken, go } = useSeller()
  const filter = queryOf({ linkId, status })
  const links = useLoad(async () => {
    const [{ links, nextCursor }, chosen] = await Promise.all([
      ask<LinkPage>('GET', `/api/v1/links?limit=${NAMED_LINKS}`),
      linkId && ask<LinkAnswer>('GET', `/api/v1/links/${linkId}`).catch(() => undefined),
    ])
    const others = chosen && links.every(({ id }) => id !== chosen.id) ? [chosen] : []
    return { named: [...links, ...others], hasMore: nextCursor !== null }
  }, [])
  const first = useLoad(() => ask<PurchasePage>('GET', `/api/v1/purchases?${pageQuery(filter)}`), [])
  const csv = useAction()
  const save = () => csv.run(() => saveCsv(`/api/v1/purchases?${filter}`, 'purchases.csv', csrfToken))
  const choose = (change: Partial<PurchasesProps>) => {
    const query = queryOf({ linkId, status, ...change })
    go(`/dashboard/purchases${query && `?${query}`}`)
  }
  const titles = [
    { value: '', label: 'All links' },
    ...(links.data?.named ?? []).map(({ id, title }) => ({ value: id, label: title })),
  ]
  const isKnown = titles.some(({ value }) => value === linkId)
  return html`<div class="stack">
    <${Title} actions=${html`<${Button} isBusy=${csv.isBusy} onClick=${save}>CSV<//>`}>Purchases<//>
    <${Fault} of=${csv} />
    <div class="desk-filters">
      <${Select} id="link" label="Link" value=${linkId} onChange=${(value: string) => choose({ linkId: value })}
        options=${isKnown ? titles : [...titles, { value: linkId, label: 'One link' }]}
        hint=${links.data?.hasMore ? 'The newest ones. Of another link its own page leads here.' : undefined} />
      <${Select} id="status" label="State" value=${status} options=${statuses} onChange=${(value: string) => choose({ status: value })} />
    </div>
    <${Load} of=${first}>${(page: PurchasePage) =>
      html`<${Pages} first=${page} filter=${filter} isFiltered=${filter !== ''} />`}<//>
  </div>`
}

const queryOf = (filter: PurchasesProps): string =>
  new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== '')).toString()

const pageQuery = (filter: string, cursor = ''): string =>
  [filter, `limit=${PER_PAGE}`, cursor && `cursor=${encodeURIComponent(cursor)}`].filter(Boolean).join('&')

interface PagesProps {
  readonly first: PurchasePage
  readonly filter: string
  readonly isFiltered: boolean
}

/** A page, and below it those that were asked for since. */
function Pages({ first, filter, isFiltered }: PagesProps) {
  const { ask } = useSeller()
  const pages = usePages(rowsOf(first), async (cursor) =>
    rowsOf(await ask<PurchasePage>('GET', `/api/v1/purchases?${pageQuery(filter, cursor)}`)),
  )
  const empty = isFiltered
    ? html`<${Empty} title="No purchase is like this"><${Button} href="/dashboard/purchases">Show all<//><//>`
    : html`<${Empty} title="Nothing was bought yet">
        <p>Each paid call stands here, with its buyer and its transaction.</p>
        <${Button} href="/dashboard/links">Look at your links<//>
      <//>`
  return html`<div class="stack">
    <${PurchaseTable} purchases=${pages.rows} empty=${empty} />
    <${More} of=${pages} />
  </div>`
}

const rowsOf = ({ purchases, nextCursor }: PurchasePage): PageOf<PurchaseAnswer> => ({
  rows: purchases,
  nextCursor,
})
