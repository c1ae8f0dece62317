import { Button, Icon } from '../components/button.ts'
import { Empty } from '../components/card.ts'
import { Select } from '../components/field.ts'
import { Pagination } from '../components/table.ts'
import { html } from '../html.ts'
import { type Result, Results } from './result.ts'
import { SearchBox } from './searchBox.ts'
import { SiteShell } from './siteShell.ts'

/** The search and the filters, as in the URL. */
export interface MarketQuery {
  readonly q?: string
  /** `api`, or `standard` for a link without an API. */
  readonly type?: string
  readonly network?: string
  /** `free`, or the maximum price of a call. */
  readonly price?: string
  readonly tag?: string
  readonly minRating?: string
  readonly sort?: string
}

export interface MarketPageProps {
  readonly serviceName: string
  readonly publicUrl: string
  readonly query: MarketQuery
  readonly links: readonly Result[]
  readonly total: number
  readonly limit: number
  readonly offset: number
  readonly networks: readonly { readonly value: string; readonly label: string }[]
  /** Tags to filter by, most used first. */
  readonly tags: readonly string[]
}

const sortsFor = (isSearch: boolean) => [
  { value: '', label: isSearch ? 'Best match' : 'Popular' },
  ...(isSearch ? [{ value: 'popular', label: 'Popular' }] : []),
  { value: 'newest', label: 'Newest' },
  { value: 'price_asc', label: 'Cheapest' },
  { value: 'price_desc', label: 'Most expensive' },
]
const types = [
  { value: '', label: 'Any' },
  { value: 'api', label: 'API, paid per call' },
  { value: 'standard', label: 'Sold once' },
]
const ratings = [
  { value: '', label: 'Any' },
  { value: '80', label: '80% and better' },
  { value: '95', label: '95% and better' },
]
const prices = [
  { value: '', label: 'Any' },
  { value: 'free', label: 'Free' },
  { value: '0.01', label: 'Up to 0.01 USDC' },
  { value: '0.1', label: 'Up to 0.10 USDC' },
  { value: '1', label: 'Up to 1 USDC' },
]

/** The marketplace's URL for a search. */
export function marketHref(query: MarketQuery, offset = 0): string {
  const entries = Object.entries({ ...query, ...(offset > 0 && { offset: String(offset) }) })
  const search = new URLSearchParams(entries.filter(([, value]) => value !== undefined && value !== ''))
  return search.size === 0 ? '/' : `/?${search}`
}

/** The marketplace, with search, filters and results, and below them how it works. */
export function MarketPage(props: MarketPageProps) {
  const { serviceName, publicUrl, query, links, total, limit, offset, networks, tags } = props
  const isAsked = Object.values(query).some((value) => value !== undefined && value !== '')
  const isNothingForSale = total === 0 && !isAsked
  return html`<${SiteShell} serviceName=${serviceName} current="/">
    <form class=${isNothingForSale ? 'market bare' : 'market'} action="/" method="get" role="search" data-submits>
      <div class="hero">
        <h1>APIs that agents pay per call</h1>
        <p class="soft">No account and no API key. See the price, pay, get the response.</p>
        <${SearchBox} value=${query.q ?? ''} />
      </div>
      ${
        !isNothingForSale &&
        html`<details class="filters">
        <summary>${filtersTitle(query)}</summary>
        <div class="filter-fields">
          <${Select} id="type" label="Type" value=${query.type ?? ''} options=${types} />
          <${Select} id="network" label="Paid on" value=${query.network ?? ''} options=${[{ value: '', label: 'Any network' }, ...networks]} />
          <${Select} id="price" label="Price per call" value=${query.price ?? ''} options=${prices} />
          <${Select} id="minRating" label="Rating" value=${query.minRating ?? ''} options=${ratings} />
          <${Select} id="tag" label="Tag" value=${query.tag ?? ''} options=${tagOptions(tags, query.tag)} />
          <${Select} id="sort" label="Sort by" value=${query.sort ?? ''} options=${sortsFor(Boolean(query.q))} />
          <${Button} type="submit">Show<//>
        </div>
      </details>`
      }
      <section class="stack" aria-label="Results">
        ${
          !isNothingForSale &&
          html`<div class="row apart">
          <h2>${headingOf(query)}</h2>
          ${
            isAsked
              ? html`<span class="row"><span class="soft small">${total} found</span><${Button} size="small" kind="quiet" href="/">Clear all<//></span>`
              : total > 0 && html`<span class="soft small">${total} in total</span>`
          }
        </div>`
        }
        ${links.length > 0 && html`<${Results} links=${links} />`}
        ${
          isNothingForSale &&
          html`<${Empty} title="Nothing is for sale here yet">
            <p>Links appear here as soon as a seller lists one.</p>
            <${Button} kind="primary" href="#sell">Sell your API<//>
          <//>`
        }
        ${
          links.length === 0 &&
          !isNothingForSale &&
          html`<${Empty} title="No results">
            <p>Try fewer words or filters.</p>
            <${Button} href="/">Show everything<//>
          <//>`
        }
        <${Pagination} total=${total} limit=${limit} offset=${offset} hrefOf=${(at: number) => marketHref(query, at)} />
      </section>
    </form>
    ${!isAsked && offset === 0 && html`<${HowItWorks} publicUrl=${publicUrl} />`}
  <//>`
}

/** Title of the filters, with the number of active ones. They close after a choice, so that a phone shows the results first. */
function filtersTitle({ q, ...filters }: MarketQuery): string {
  const set = Object.values(filters).filter((value) => value !== undefined && value !== '').length
  return set === 0 ? 'Filters' : `Filters (${set})`
}

/** The selected tag may be too rare to be among the most used tags. */
const tagOptions = (tags: readonly string[], chosen: string | undefined) => [
  { value: '', label: 'Any' },
  ...[...new Set(chosen ? [chosen, ...tags] : tags)].map((tag) => ({ value: tag, label: tag })),
]

function headingOf({ q, tag, sort }: MarketQuery) {
  if (q) return html`Results for “<bdi>${q}</bdi>”`
  if (tag) return html`Tagged “<bdi>${tag}</bdi>”`
  return sort === 'newest' ? 'Newest' : sort ? 'All links' : 'Popular now'
}

const HowItWorks = ({ publicUrl }: { readonly publicUrl: string }) => html`<div class="stack below">
  <section class="stack" aria-labelledby="how">
    <h2 id="how">How it works</h2>
    <ol class="steps">
      <li><strong>Call a link</strong><p>Use any HTTP client. The first response is 402, with the price and the address to pay.</p></li>
      <li><strong>Pay in USDC</strong><p>The client signs one payment and sends the same call again. No gas, no account.</p></li>
      <li><strong>Get the response</strong><p>Most links charge you after the seller has responded. Each link's page says whether you are charged before or after the response. Each payment buys one call.</p></li>
    </ol>
  </section>
  <section id="sell" class="sell card">
    <div class="stack tight">
      <h2>Sell your API</h2>
      <p class="soft">Put a price on an API that you already run. Your code stays unchanged. Buyers pay directly to your wallet.</p>
    </div>
    <div class="row">
      <${Button} kind="primary" href="/dashboard">Start selling <${Icon} name="arrow" /><//>
      <span class="small soft">Agents read <a href="/llms.txt">${publicUrl}/llms.txt</a></span>
    </div>
  </section>
</div>`
