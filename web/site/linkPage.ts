import type { Asset } from '../../core/domain/asset.ts'
import type { LinkType } from '../../core/domain/link.ts'
import { Avatar } from '../components/avatar.ts'
import { ticksOf } from '../components/axes.ts'
import { Badge } from '../components/badge.ts'
import { BarChart } from '../components/barChart.ts'
import { Button } from '../components/button.ts'
import { Code, CodeBlock } from '../components/codeBlock.ts'
import { CopyButton } from '../components/copyButton.ts'
import { NetworkBadge } from '../components/networkBadge.ts'
import { Notice } from '../components/notice.ts'
import { Table } from '../components/table.ts'
import { dayOf } from '../components/time.ts'
import { html } from '../html.ts'
import { callSamples } from './callSamples.ts'
import type { InputField } from './inputFields.ts'
import { Price, type ResultStats, Stats } from './result.ts'
import { ReviewList, type ReviewListProps } from './reviewList.ts'
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
    /** Decimal string; null for a free one. */
    readonly price: string | null
    readonly url: string
    readonly methods: readonly string[]
    /** The method it is shown with. */
    readonly method: string
    readonly linkType: LinkType
    readonly isSuspended: boolean
    readonly isChargedFirst: boolean
    readonly networks: readonly string[]
  }
  readonly fields: readonly InputField[]
  /** What a call could carry. */
  readonly example: Readonly<Record<string, unknown>> | null
  /** What the seller says that comes back. */
  readonly answer: unknown
  readonly assets: readonly Asset[]
  readonly stats: ResultStats
  readonly days: readonly { readonly day: string; readonly uptime: number | null }[]
  readonly reviews: ReviewListProps
}

/** What one gets, for how much, and how to call it. */
export function LinkPage(props: LinkPageProps) {
  const { serviceName, publicUrl, link, fields, example, answer, assets, stats, days, reviews } = props
  const { username, displayName, avatarUrl, slug, title, description, tags, price, url, method } = link
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
  const canTry = isApi && !link.isSuspended
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
        ${link.isSuspended && html`<${Notice} tone="warn" title="This link is suspended">Its API did not answer well. It can not be called, and nothing is charged, until it does again.<//>`}
      </header>
      <aside class="card buy">
        <div>
          <${Price} price=${price} isBig=${true} />
          ${price !== null && html`<p class="small soft">${isApi ? `a call, ${link.isChargedFirst ? 'charged before it is made' : 'charged when it is answered'}` : 'once'}</p>`}
        </div>
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
            <${TryIt} path=${new URL(url).pathname} method=${method} fields=${fields} price=${price} assets=${assets} />
          </section>`
        }
        ${
          answer !== null &&
          answer !== undefined &&
          html`<section class="stack" aria-labelledby="answer"><h2 id="answer">What comes back</h2><${Code} title="example answer" code=${JSON.stringify(answer, null, 2)} /></section>`
        }
        <section class="stack" aria-labelledby="call">
          <h2 id="call">${isApi ? 'Call it from your code' : 'Buy it from your code'}</h2>
          <div class="endpoint"><${Badge}>${link.methods.length === 0 ? 'Any method' : link.methods.join(' ')}<//><code>${url}</code><${CopyButton} text=${url} what="address" /></div>
          <${CodeBlock} id="how" label="How to call it" samples=${samples} />
        </section>
        ${fields.length > 0 && html`<${InputTable} fields=${fields} />`}
        ${isApi && html`<${Health} days=${days} uptime=${stats.uptime} />`}
        <${ReviewList} ...${reviews} />
      </div>
    </article>
  <//>`
}

/** Leads to the checkout, or where a free link leads. Without a script, because it is a form. */
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

const InputTable = ({ fields }: { readonly fields: readonly InputField[] }) =>
  html`<section class="stack" aria-labelledby="input">
    <h2 id="input">What it takes</h2>
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
          title: 'Kind',
          cell: ({ kind, isRequired }: InputField) =>
            html`${kinds[kind]}${isRequired && html` <${Badge} tone="info">needed<//>`}`,
        },
        {
          key: 'about',
          title: 'About',
          cell: ({ description, options }: InputField) =>
            html`<span dir="auto">${description || options.join(', ')}</span>`,
        },
      ]}
    />
  </section>`

const kinds = { text: 'text', number: 'number', flag: 'yes or no', choice: 'one of', json: 'JSON' } as const

/** A bar a day. The scale begins at nought; a day without checks has none. */
const Health = ({ days, uptime }: Pick<LinkPageProps, 'days'> & { readonly uptime: number | null }) =>
  html`<section class="stack" aria-labelledby="health">
    <div class="row apart"><h2 id="health">Health</h2><span class="soft small">${uptime === null ? 'Not known yet' : `${uptime}% in 30 days`}</span></div>
    <${BarChart}
      label=${uptime === null ? 'No health checks yet' : `Uptime of the last ${days.length} days: ${uptime}%`}
      height=${64}
      most=${100}
      bars=${days.map(({ day, uptime: share }) => ({
        label: `${day}: ${share === null ? 'not known' : `${share}%`}`,
        value: share ?? 100,
        tone: share === null ? 'none' : share >= 99 ? 'good' : share >= 90 ? 'warn' : 'bad',
      }))}
      valueText=${(share: number) => `${share}%`}
      ends=${ticksOf(days.map(({ day }) => dayOf(Date.parse(day))))}
    />
  </section>`
