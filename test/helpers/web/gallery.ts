import { Button } from '../../../web/components/button.ts'
import { Badge, Card, Empty, Notice, Skeleton } from '../../../web/components/card.ts'
import { BarChart, LineChart } from '../../../web/components/charts.ts'
import { Field, Select } from '../../../web/components/field.ts'
import { Address, Amount, NetworkBadge } from '../../../web/components/money.ts'
import { Pagination, Table } from '../../../web/components/table.ts'
import { CodeBlock } from '../../../web/components/tabs.ts'
import { Countdown, Time } from '../../../web/components/time.ts'
import { html } from '../../../web/html.ts'
import { SiteShell } from '../../../web/site/siteShell.ts'

const wallet = '0x00000000000000000000000000000000000000a1'
const amounts = ['0.000001', '0.1', '12', '1234567.89', '999999999999999999999999999999.123456']

/** Every component once, as the tests and designers of a page look at them. */
export const Gallery = () => html`<${SiteShell} serviceName="Tollgate">
  <div class="stack">
    <h1>Components</h1>
    <div class="row">
      <${Button}>Plain<//><${Button} kind="primary">Primary<//><${Button} kind="quiet">Quiet<//>
      <${Button} kind="danger">Danger<//><${Button} kind="primary" isBusy=${true}>Busy<//><${Button} size="small" href="#main">Small<//>
    </div>
    <${Card} title="Fields">
      <div class="stack">
        <${Field} id="title" label="Title" hint="At most 200 characters." value="Weather" />
        <${Field} id="price" label="Price" value="ten" error="Expected a decimal number such as 0.10." />
        <${Select} id="sort" label="Sort by" options=${[{ value: '', label: 'Popular' }]} />
      </div>
    <//>
    <div class="row">
      <${Badge}>Plain<//><${Badge} tone="good">Up<//><${Badge} tone="warn">Slow<//><${Badge} tone="bad">Suspended<//><${Badge} tone="info">New<//>
      <${NetworkBadge} network="eip155:8453" /><${NetworkBadge} network="solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1" />
    </div>
    <${Table}
      caption="Amounts"
      sort=${{ key: 'amount', direction: 'descending' }}
      columns=${[
        { key: 'wallet', title: 'Buyer', cell: () => html`<${Address} value=${wallet} />` },
        { key: 'at', title: 'When', cell: () => html`<${Time} atMs=${0} nowMs=${150_000} />` },
        {
          key: 'amount',
          title: 'Amount',
          align: 'end',
          isSortable: true,
          cell: (value: string) => html`<${Amount} value=${value} />`,
        },
      ]}
      rows=${amounts}
    />
    <${Table}
      caption="Purchases"
      columns=${[
        { key: 'at', title: 'When', cell: () => html`<${Time} atMs=${0} nowMs=${150_000} />` },
        {
          key: 'amount',
          title: 'Amount',
          align: 'end',
          cell: (value: string) => html`<${Amount} value=${value} />`,
        },
        { key: 'what', title: 'What', cell: () => 'Forecast for ten days, with what stands in no other' },
        { key: 'state', title: 'State', cell: () => html`<${Badge} tone="good">Delivered<//>` },
        { key: 'buyer', title: 'Buyer', cell: () => html`<${Address} value=${wallet} />` },
        { key: 'network', title: 'Network', cell: () => html`<${NetworkBadge} network="eip155:8453" />` },
      ]}
      rows=${amounts}
    />
    <${Pagination} total=${61} limit=${20} offset=${20} hrefOf=${(offset: number) => `?offset=${offset}`} />
    <${CodeBlock}
      id="call"
      label="How to call it"
      samples=${[
        { title: 'curl', code: 'curl -i https://pay.example/api/link/demo/weather' },
        { title: 'tollgate pay', code: 'tollgate pay https://pay.example/api/link/demo/weather' },
      ]}
    />
    <${Card} title="Charts">
      <div class="stack">
        <${LineChart} label="Revenue of a week" values=${[1, 3, 2, 5, 4, 7, 6]} before=${[2, 2, 3, 3, 2, 4, 3]} ends=${['Mon', 'Sun']} />
        <${BarChart} label="Health" bars=${[{ label: 'Mon', value: 1 }, { label: 'Tue', value: 0.4, tone: 'bad' }, { label: 'Wed', value: 0 }]} height=${40} />
      </div>
    <//>
    <p><${Amount} value="49.99" isBig=${true} /></p>
    <${Countdown} totalMs=${1_800_000} leftMs=${600_000} />
    <${Notice} tone="bad" title="The purchase was not found." requestId="4711">Look at its id.<//>
    <${Empty} title="No sales yet"><p>They appear here with the first purchase.</p><//>
    <${Skeleton} />
  </div>
<//>`
