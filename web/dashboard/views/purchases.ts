import { Button } from '../../components/button.ts'
import { Empty } from '../../components/card.ts'
import { Select } from '../../components/field.ts'
import { html } from '../../html.ts'
import { Title } from '../../shell/frame.ts'
import { Fault, Load, useAction, useLoad } from '../../shell/load.ts'
import { ChannelsCard } from '../channelsCard.ts'
import { More, type PageOf, saveCsv, usePages } from '../pages.ts'
import { PurchaseTable } from '../purchaseTable.ts'
import { useSeller } from '../seller.ts'
import type { LinkPage, LinkResponse, PurchasePage, PurchaseResponse } from '../types.ts'

export interface PurchasesProps {
  /** Shows only purchases of this link. Empty for all. */
  readonly linkId: string
  /** Shows only purchases in this state. Empty for all. */
  readonly status: string
}

const PER_PAGE = 25
/** Maximum number of links in the filter. A seller with more links uses the filter on the page of a link. */
const NAMED_LINKS = 50

const statuses = [
  { value: '', label: 'All' },
  { value: 'refund_due', label: 'Refund due' },
  { value: 'refunded', label: 'Refunded' },
  { value: 'reorged', label: 'Dropped from the chain' },
]

/** The purchases. The URL contains the filters, so sellers can bookmark it. */
export function Purchases({ linkId, status }: PurchasesProps) {
  const { api, csrfToken, go } = useSeller()
  const filter = queryOf({ linkId, status })
  const links = useLoad(async () => {
    const [{ links, nextCursor }, chosen] = await Promise.all([
      api<LinkPage>('GET', `/api/v1/links?limit=${NAMED_LINKS}`),
      linkId && api<LinkResponse>('GET', `/api/v1/links/${linkId}`).catch(() => undefined),
    ])
    const others = chosen && links.every(({ id }) => id !== chosen.id) ? [chosen] : []
    return { named: [...links, ...others], hasMore: nextCursor !== null }
  }, [])
  const first = useLoad(() => api<PurchasePage>('GET', `/api/v1/purchases?${pageQuery(filter)}`), [])
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
    ${filter === '' && html`<${ChannelsCard} />`}
    <div class="shell-filters">
      <${Select} id="link" label="Link" value=${linkId} onChange=${(value: string) => choose({ linkId: value })}
        options=${isKnown ? titles : [...titles, { value: linkId, label: 'One link' }]}
        hint=${links.data?.hasMore ? 'This list has only the newest links. For another link, open the link’s page and follow “View the purchases”.' : undefined} />
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

/** The first page and the pages that were loaded after it. */
function Pages({ first, filter, isFiltered }: PagesProps) {
  const { api } = useSeller()
  const pages = usePages(rowsOf(first), async (cursor) =>
    rowsOf(await api<PurchasePage>('GET', `/api/v1/purchases?${pageQuery(filter, cursor)}`)),
  )
  const empty = isFiltered
    ? html`<${Empty} title="No purchases match"><${Button} href="/dashboard/purchases">Show all<//><//>`
    : html`<${Empty} title="No purchases yet">
        <p>Each paid call appears here, with its buyer and its transaction.</p>
        <${Button} href="/dashboard/links">Go to your links<//>
      <//>`
  return html`<div class="stack">
    <${PurchaseTable} purchases=${pages.rows} empty=${empty} />
    <${More} of=${pages} />
  </div>`
}

const rowsOf = ({ purchases, nextCursor }: PurchasePage): PageOf<PurchaseResponse> => ({
  rows: purchases,
  nextCursor,
})
