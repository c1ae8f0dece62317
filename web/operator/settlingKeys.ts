import { useEffect } from 'preact/hooks'
import { Address } from '../components/address.ts'
import { Badge, type Tone } from '../components/badge.ts'
import { Card } from '../components/card.ts'
import { Empty } from '../components/empty.ts'
import { NetworkBadge } from '../components/networkBadge.ts'
import { Notice } from '../components/notice.ts'
import { Time } from '../components/time.ts'
import type { ApiClient } from '../desk/api.ts'
import { Load, useLoad } from '../desk/load.ts'
import { Title } from '../desk/title.ts'
import { msOf } from '../desk/words.ts'
import { type Children, html } from '../html.ts'

/** How often the keys are asked for. */
const REFRESH_MS = 10_000
/** Fewer payments ahead than this are worth a word; as of `tollgate doctor`, and then some. */
const LOW_PAYMENTS = 100

interface SettlingAnswer {
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
    readonly state: 'any' | 'nobody' | 'held'
    readonly processId: number | null
    readonly isThis: boolean
  }
}

/** Who settles on each network, and how long its money for gas lasts. */
export function SettlingKeys({ ask }: { readonly ask: ApiClient }) {
  const keys = useLoad(() => ask<{ rows: readonly SettlingAnswer[] }>('GET', '/api/operator/settling'), [])
  useEffect(() => {
    const timer = setInterval(() => document.hidden || keys.reload(), REFRESH_MS)
    return () => clearInterval(timer)
  }, [])
  return html`<div class="stack">
    <${Title}>Settling keys<//>
    <${Load} of=${keys}>${({ rows }: { rows: readonly SettlingAnswer[] }) =>
      rows.length === 0
        ? html`<${Empty} title="No network is open"><p>Paid links can’t be paid. Networks are named in the configuration.</p><//>`
        : [...Map.groupBy(rows, ({ network }) => network).values()].map((keys) =>
            keys.map(
              (row, i) =>
                html`<${Key} key=${`${row.network} ${row.address}`} row=${row} number=${i + 1} of=${keys.length} />`,
            ),
          )}<//>
  </div>`
}

interface KeyProps {
  readonly row: SettlingAnswer
  /** Which of the network's keys it is, from 1, and how many there are. */
  readonly number: number
  readonly of: number
}

function Key({ row, number, of }: KeyProps) {
  const { network, facilitator, address, fault, trouble, asOf, nonce } = row
  const title = html`<span class="operator-key"><${NetworkBadge} network=${network} />${of > 1 && html`<span class="small soft">key ${number} of ${of}</span>`}</span>`
  return html`<${Card} title=${title} actions=${html`<${Funds} row=${row} />`}><div class="stack">
    ${
      fault !== null &&
      html`<${Notice} tone="warn" title="The chain could not be asked">
        <p>${fault} ${asOf === null ? 'Nothing is known of the key yet.' : html`What is shown is as of <${Time} atMs=${msOf(asOf)} nowMs=${Date.now()} />.`}</p>
      <//>`
    }
    ${trouble !== null && html`<${Notice} tone="warn" title="This key is passed over"><p>${trouble}</p><//>`}
    ${facilitator !== null && html`<p class="soft">Settled and paid for by the facilitator at <span class="mono operator-address">${facilitator}</span>.</p>`}
    <dl class="desk-facts">
      ${address !== null && html`<${Fact} title="Account"><${Address} value=${address} /><//>`}
      ${
        facilitator === null &&
        html`<${Fact} title="Balance"><span class="number">${row.balance ?? '–'}</span><//>
        <${Fact} title="Gas left">${row.paymentsLeft === null ? '–' : html`<span class="number">${paymentsShown(row.paymentsLeft)}</span>`}<//>`
      }
      ${
        // Known of all keys of a network together: it stands once.
        facilitator === null &&
        number === 1 &&
        html`<${Fact} title=${of > 1 ? 'Gas today, all keys' : 'Gas today'}><span class="number">${row.gasToday}</span><//>
        <${Fact} title=${of > 1 ? 'In seven days, all keys' : 'In seven days'}><span class="number">${row.gasWeek}</span><//>`
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

const Funds = ({ row: { facilitator, paymentsLeft, fault } }: { readonly row: SettlingAnswer }) => {
  if (facilitator !== null) return html`<${Badge}>Somebody else’s<//>`
  if (paymentsLeft === null || fault !== null) return html`<${Badge} tone="warn">Not known now<//>`
  const left = BigInt(paymentsLeft)
  const [tone, words]: [Tone, string] =
    left === 0n ? ['bad', 'Out of gas'] : left < LOW_PAYMENTS ? ['warn', 'Runs low'] : ['good', 'Has gas']
  return html`<${Badge} tone=${tone}>${words}<//>`
}

function paymentsShown(payments: string): string {
  if (payments.length > 6) return 'over a million payments'
  return `${payments.replace(/\B(?=(\d{3})+$)/g, '\u202f')} ${payments === '1' ? 'payment' : 'payments'}`
}

function leaseWords({ lease: { state, processId, isThis } }: SettlingAnswer): string {
  if (state === 'any') return 'Any process'
  if (state === 'nobody') return 'Nobody now'
  if (isThis) return `This process (${processId})`
  return processId === null ? 'One process' : `Another gateway (process ${processId})`
}
