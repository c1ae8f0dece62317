import { useEffect } from 'preact/hooks'
import { Badge, Card, Empty, Notice, type Tone } from '../components/card.ts'
import { Address, NetworkBadge } from '../components/money.ts'
import { Time } from '../components/time.ts'
import { type Children, html } from '../html.ts'
import type { ApiClient } from '../shell/api.ts'
import { Title } from '../shell/frame.ts'
import { Load, useLoad } from '../shell/load.ts'
import { msOf } from '../shell/words.ts'

/** How often the keys are polled, in ms. */
const REFRESH_MS = 10_000
/** Number of payments below which the page shows the remaining gas as low. It is higher than the limit of `tollgate doctor`. */
const LOW_PAYMENTS = 100

interface SettlingResponse {
  readonly network: string
  readonly facilitator: string | null
  readonly address: string | null
  readonly balance: string | null
  readonly paymentsLeft: string | null
  readonly inFlight: number | null
  readonly nonce: { readonly mined: number; readonly pending: number } | null
  readonly asOf: string | null
  readonly fault: string | null
  readonly trouble: string | null
  readonly openAttempts: number
  readonly gasToday: string
  readonly gasWeek: string
  readonly lease: {
    readonly state: 'any' | 'free' | 'held'
    readonly processId: number | null
    readonly isThis: boolean
  }
}

/** The settling keys of each network, and how long their gas lasts. */
export function SettlingKeys({ api }: { readonly api: ApiClient }) {
  const keys = useLoad(() => api<{ rows: readonly SettlingResponse[] }>('GET', '/api/operator/settling'), [])
  useEffect(() => {
    const timer = setInterval(() => document.hidden || keys.reload(), REFRESH_MS)
    return () => clearInterval(timer)
  }, [])
  return html`<div class="stack">
    <${Title}>Settling keys<//>
    <${Load} of=${keys}>${({ rows }: { rows: readonly SettlingResponse[] }) =>
      rows.length === 0
        ? html`<${Empty} title="No network is available"><p>Buyers cannot pay for any link. Check <code>networks</code> in the configuration.</p><//>`
        : [...Map.groupBy(rows, ({ network }) => network).values()].map((keys) =>
            keys.map(
              (row, i) =>
                html`<${Key} key=${`${row.network} ${row.address}`} row=${row} number=${i + 1} of=${keys.length} />`,
            ),
          )}<//>
  </div>`
}

interface KeyProps {
  readonly row: SettlingResponse
  /** Position of the key among the network's keys, from 1, and the number of keys. */
  readonly number: number
  readonly of: number
}

function Key({ row, number, of }: KeyProps) {
  const { network, facilitator, address, fault, trouble, asOf, nonce } = row
  const title = html`<span class="operator-key"><${NetworkBadge} network=${network} />${of > 1 && html`<span class="small soft">key ${number} of ${of}</span>`}</span>`
  return html`<${Card} title=${title} actions=${html`<${Funds} row=${row} />`}><div class="stack">
    ${
      fault !== null &&
      html`<${Notice} tone="warn" title="The chain could not be read">
        <p>${fault} ${asOf === null ? 'There is no data for this key yet.' : html`The values below are from <${Time} atMs=${msOf(asOf)} nowMs=${Date.now()} />.`}</p>
      <//>`
    }
    ${trouble !== null && html`<${Notice} tone="warn" title="This key is not used"><p>${trouble}</p><//>`}
    ${facilitator !== null && html`<p class="soft">The facilitator settles and pays the gas: <span class="mono operator-address">${facilitator}</span></p>`}
    <dl class="shell-facts">
      ${address !== null && html`<${Fact} title="Account"><${Address} value=${address} /><//>`}
      ${
        facilitator === null &&
        html`<${Fact} title="Balance"><span class="number">${row.balance ?? '–'}</span><//>
        <${Fact} title="Gas left">${row.paymentsLeft === null ? '–' : html`<span class="number">${paymentsShown(row.paymentsLeft)}</span>`}<//>`
      }
      ${
        // This is shown once, because it is counted for all keys of a network together.
        facilitator === null &&
        number === 1 &&
        html`<${Fact} title=${of > 1 ? 'Gas used today, all keys' : 'Gas used today'}><span class="number">${row.gasToday}</span><//>
        <${Fact} title=${of > 1 ? 'Gas used in 7 days, all keys' : 'Gas used in 7 days'}><span class="number">${row.gasWeek}</span><//>`
      }
      ${
        nonce !== null &&
        html`<${Fact} title="Next nonce"><span class="number">${nonce.mined}</span>${nonce.pending > nonce.mined && html` <span class="soft">on chain, <span class="number">${nonce.pending}</span> in the pool</span>`}<//>`
      }
      <${Fact} title="Open attempts"><span class="number">${row.openAttempts}</span>${row.inFlight !== null && row.inFlight > 0 && html`<span class="soft">, ${row.inFlight} in flight</span>`}<//>
      ${facilitator === null && html`<${Fact} title="Signed by">${leaseWords(row)}<//>`}
    </dl>
  </div><//>`
}

const Fact = ({ title, children }: { readonly title: string; readonly children: Children }) =>
  html`<div><dt>${title}</dt><dd>${children}</dd></div>`

const Funds = ({ row: { facilitator, paymentsLeft, fault } }: { readonly row: SettlingResponse }) => {
  if (facilitator !== null) return html`<${Badge}>Facilitator<//>`
  if (paymentsLeft === null || fault !== null) return html`<${Badge} tone="warn">Unknown<//>`
  const left = BigInt(paymentsLeft)
  const [tone, words]: [Tone, string] =
    left === 0n ? ['bad', 'Out of gas'] : left < LOW_PAYMENTS ? ['warn', 'Low on gas'] : ['good', 'Has gas']
  return html`<${Badge} tone=${tone}>${words}<//>`
}

function paymentsShown(payments: string): string {
  if (payments.length > 6) return 'over a million payments'
  return `${payments.replace(/\B(?=(\d{3})+$)/g, '\u202f')} ${payments === '1' ? 'payment' : 'payments'}`
}

function leaseWords({ lease: { state, processId, isThis } }: SettlingResponse): string {
  if (state === 'any') return 'Any process'
  if (state === 'free') return 'No process'
  if (isThis) return `This process (${processId})`
  return processId === null ? 'One process' : `Another gateway (process ${processId})`
}
