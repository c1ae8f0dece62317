import type { Access } from '../../core/domain/access.ts'
import type { Asset } from '../../core/domain/asset.ts'
import type { LinkType } from '../../core/domain/link.ts'
import { Button, CopyButton } from '../components/button.ts'
import { Avatar, Badge, Notice } from '../components/card.ts'
import { BarChart, ticksOf } from '../components/charts.ts'
import { Amount, NetworkBadge } from '../components/money.ts'
import { Table } from '../components/table.ts'
import { Code, CodeBlock } from '../components/tabs.ts'
import { dayOf } from '../components/time.ts'
import { html } from '../html.ts'
import { callSamples } from './callSamples.ts'
import type { InputField } from './inputFields.ts'
import { Price, type ResultStats, Stats } from './result.ts'
import { ReviewList, type ReviewListProps } from './reviews.ts'
import { SiteShell } from './siteShell.ts'
import { TryIt } from './tryIt.ts'

export interface LinkPageProps {
  readonly serviceName: string
  readonly publicUrl: string
  readonly link: {
    readonly username: string
    readonly displayName: string
    readonly avatarUrl: string
    readonly slug: string
    readonly title: string
    readonly description: string
    readonly tags: readonly string[]
    /** Price as a decimal string. Null for a free link. */
    readonly price: string | null
    /** The highest price, if the price depends on the request. */
    readonly priceMax: string | null
    /** The prices by request, in the order of the rules. Empty if every call has one price. */
    readonly prices: readonly { readonly when: string; readonly price: string | null }[]
    /** What a call costs by what it has used, in words. Null if the link has no price by use. */
    readonly use: string | null
    readonly url: string
    readonly methods: readonly string[]
    readonly method: string
    readonly linkType: LinkType
    readonly isSuspended: boolean
    readonly isChargedFirst: boolean
    /** Who can call the link by a signature instead of a payment. */
    readonly access: Access | null
    readonly networks: readonly string[]
  }
  readonly fields: readonly InputField[]
  readonly example: Readonly<Record<string, unknown>> | null
  /** The seller's example response. */
  readonly answer: unknown
  readonly assets: readonly Asset[]
  readonly stats: ResultStats
  readonly days: readonly { readonly day: string; readonly uptime: number | null }[]
  readonly reviews: ReviewListProps
}

/** The page of a link. It shows what the link sells, its price, and how to call it. */
export function LinkPage(props: LinkPageProps) {
  const { serviceName, publicUrl, link, fields, example, answer, assets, stats, days, reviews } = props
  const { username, displayName, avatarUrl, slug, title, description, tags, price, priceMax, url, method } =
    link
  const samples = callSamples({
    url,
    method,
    networks: link.networks,
    publicUrl,
    username,
    slug,
    example,
  })
  const isApi = link.linkType === 'api'
  const canTry = isApi && !link.isSuspended && link.access !== 'signed-in'
  return html`<${SiteShell} serviceName=${serviceName}>
    <article class="link">
      <header class="stack">
        <p class="row small">
          <${Avatar} name=${displayName} url=${avatarUrl} />
          <a class="quiet-link" href=${`/${username}`}><bdi>${displayName}</bdi> <span class="soft">@${username}</span></a>
        </p>
        <h1 dir="auto">${title}</h1>
        ${description && html`<p class="lead" dir="auto">${description}</p>`}
        ${tags.length > 0 && html`<ul class="tags">${tags.map((tag) => html`<li><a class="tag" href=${`/?tag=${encodeURIComponent(tag)}`}>${tag}</a></li>`)}</ul>`}
        ${link.isSuspended && html`<${Notice} tone="warn" title="This link is suspended">This API is failing health checks. Calls are paused, and nothing is charged, until the API recovers.<//>`}
      </header>
      <aside class="card buy">
        <div>
          <${Price} price=${price} priceMax=${priceMax} isBig=${true} />
          ${price !== null && html`<p class="small soft">${isApi ? `per call, charged ${link.isChargedFirst ? 'before the call' : 'after the response'}` : 'once'}</p>`}
          ${link.use !== null && html`<p class="small">You authorize at most this amount, and are charged for what the call has used: ${link.use}.</p>`}
        </div>
        ${link.access !== null && html`<p class="small soft">${accessText(link.access)}</p>`}
        ${link.networks.length > 0 && html`<p class="row">${link.networks.map((network) => html`<${NetworkBadge} network=${network} />`)}</p>`}
        ${canTry && html`<${Button} kind="primary" href="#try">Try it<//>`}
        ${!isApi && html`<${Buy} path=${`/${username}/${slug}`} endpoint=${url} isPaid=${price !== null} />`}
        <${Stats} ...${stats} />
        ${isApi && html`<p class="small row"><a href=${`/${username}/openapi.json`}>OpenAPI</a>${price !== null && html`<a href=${new URL(url).pathname}>Raw 402</a>`}</p>`}
      </aside>
      <div class="stack main">
        ${
          canTry &&
          html`<section class="stack card" id="try" aria-labelledby="try-title">
            <h2 id="try-title">Try it</h2>
            <${TryIt} path=${new URL(url).pathname} method=${method} fields=${fields} price=${price} priceMax=${priceMax} assets=${assets} />
          </section>`
        }
        ${
          answer !== null &&
          answer !== undefined &&
          html`<section class="stack" aria-labelledby="answer"><h2 id="answer">Example response</h2><${Code} title="example response" code=${JSON.stringify(answer, null, 2)} /></section>`
        }
        <section class="stack" aria-labelledby="call">
          <h2 id="call">${isApi ? 'Call it from your code' : 'Buy it from your code'}</h2>
          <div class="endpoint"><${Badge}>${link.methods.length === 0 ? 'Any method' : link.methods.join(' ')}<//><code>${url}</code><${CopyButton} text=${url} what="address" /></div>
          <${CodeBlock} id="how" label="How to call it" samples=${samples} />
        </section>
        ${link.prices.length > 0 && html`<${Prices} prices=${link.prices} />`}
        ${fields.length > 0 && html`<${InputTable} fields=${fields} />`}
        ${isApi && html`<${Health} days=${days} uptime=${stats.uptime} />`}
        <${ReviewList} ...${reviews} />
      </div>
    </article>
  <//>`
}

const accessText = (access: Access): string =>
  access === 'signed-in'
    ? 'For wallets that sign in.'
    : `A wallet that has paid can call it again for ${access.paidFor}.`

/** Button to the checkout, or to the target of a free link. It is in a form, so it works without JavaScript. */
const Buy = ({
  path,
  endpoint,
  isPaid,
}: {
  readonly path: string
  readonly endpoint: string
  readonly isPaid: boolean
}) =>
  isPaid
    ? html`<form action=${path} method="post"><${Button} kind="primary" type="submit">Buy<//></form>
      <p class="small soft">You pay on the next page from your own wallet, and then get what you bought.</p>`
    : html`<${Button} kind="primary" href=${new URL(endpoint).pathname}>Open<//>`

type ListedPrice = LinkPageProps['link']['prices'][number]

const Prices = ({ prices }: { readonly prices: readonly ListedPrice[] }) =>
  html`<section class="stack" aria-labelledby="prices">
    <h2 id="prices">Prices</h2>
    <p class="small soft">The first row that fits a request decides. The 402 states the price of your request before you pay.</p>
    <${Table}
      caption="Prices by request"
      rows=${prices}
      columns=${[
        {
          key: 'when',
          title: 'Request',
          cell: ({ when }: ListedPrice) => html`<code dir="auto">${when}</code>`,
        },
        {
          key: 'price',
          title: 'Price',
          align: 'end',
          cell: ({ price }: ListedPrice) =>
            price === null ? html`<span class="soft">not sold</span>` : html`<${Amount} value=${price} />`,
        },
      ]}
    />
  </section>`

const InputTable = ({ fields }: { readonly fields: readonly InputField[] }) =>
  html`<section class="stack" aria-labelledby="input">
    <h2 id="input">Input</h2>
    <${Table}
      caption="Fields of a call"
      rows=${fields}
      columns=${[
        {
          key: 'name',
          title: 'Field',
          cell: (field: InputField) => html`<code dir="auto">${field.name}</code>`,
        },
        {
          key: 'kind',
          title: 'Type',
          cell: ({ kind, isRequired }: InputField) =>
            html`${kinds[kind]}${isRequired && html` <${Badge} tone="info">required<//>`}`,
        },
        {
          key: 'about',
          title: 'Description',
          cell: ({ description, options }: InputField) =>
            html`<span dir="auto">${description || options.join(', ')}</span>`,
        },
      ]}
    />
  </section>`

const kinds = { text: 'text', number: 'number', flag: 'yes or no', choice: 'one of', json: 'JSON' } as const

/** One bar per day. The scale starts at zero, and a day without checks has no bar. */
const Health = ({ days, uptime }: Pick<LinkPageProps, 'days'> & { readonly uptime: number | null }) =>
  html`<section class="stack" aria-labelledby="health">
    <div class="row apart"><h2 id="health">Health</h2><span class="soft small">${uptime === null ? 'No data yet' : `${uptime}% in 30 days`}</span></div>
    <${BarChart}
      label=${uptime === null ? 'No health checks yet' : `Uptime of the last ${days.length} days: ${uptime}%`}
      height=${64}
      most=${100}
      bars=${days.map(({ day, uptime: share }) => ({
        label: `${day}: ${share === null ? 'no data' : `${share}%`}`,
        value: share ?? 100,
        tone: share === null ? 'none' : share >= 99 ? 'good' : share >= 90 ? 'warn' : 'bad',
      }))}
      valueText=${(share: number) => `${share}%`}
      ends=${ticksOf(days.map(({ day }) => dayOf(Date.parse(day))))}
    />
  </section>`
