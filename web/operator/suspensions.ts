import { Button } from '../components/button.ts'
import { Badge, Card, Empty } from '../components/card.ts'
import { showToast } from '../components/dialog.ts'
import { Time } from '../components/time.ts'
import { html } from '../html.ts'
import type { ApiClient } from '../shell/api.ts'
import { Title } from '../shell/frame.ts'
import { Fault, Load, useAction, useLoad } from '../shell/load.ts'
import { msOf } from '../shell/words.ts'

interface SuspendedResponse {
  readonly id: string
  readonly title: string
  readonly link: string
  readonly reason: string
  readonly since: string
  readonly cooldownUntil: string
  readonly permanent: boolean
}

interface SuspensionsResponse {
  readonly total: number
  readonly rows: readonly SuspendedResponse[]
}

/** The suspended links, and why they are suspended. */
export function Suspensions({ api }: { readonly api: ApiClient }) {
  const suspensions = useLoad(() => api<SuspensionsResponse>('GET', '/api/operator/suspensions'), [])
  return html`<div class="stack">
    <${Title}>Suspensions<//>
    <p class="soft">Links are suspended by failed health checks and calls, never by a person. Sellers can lift a suspension when the cooldown is over and the API works again. Only you can lift a permanent suspension.</p>
    <${Load} of=${suspensions}>${({ total, rows }: SuspensionsResponse) =>
      rows.length === 0
        ? html`<${Empty} title="No link is suspended"><p>Links whose API keeps failing appear here, with the reason.</p><//>`
        : html`<${Card} title=${total === 1 ? 'One link' : `${total} links`}>
            <ul class="shell-list">${rows.map((row) => html`<${Suspended} key=${row.id} api=${api} row=${row} onLifted=${suspensions.reload} />`)}</ul>
            ${total > rows.length && html`<p class="soft">Only the ${rows.length} most recent are shown.</p>`}
          <//>`}<//>
  </div>`
}

interface SuspendedProps {
  readonly api: ApiClient
  readonly row: SuspendedResponse
  readonly onLifted: () => void
}

function Suspended({ api, row, onLifted }: SuspendedProps) {
  const { id, title, link, reason, since, cooldownUntil, permanent } = row
  const action = useAction()
  const nowMs = Date.now()
  const lift = () =>
    action.run(async () => {
      await api('POST', `/api/operator/suspensions/${id}/lift`)
      showToast({ text: `${title} accepts calls again.` })
      onLifted()
    })
  const isOver = msOf(cooldownUntil) <= nowMs
  return html`<li class="operator-suspended">
    <div>
      <strong dir="auto">${title}</strong>
      <a class="mono operator-address" href=${`/operator/programs?link=${encodeURIComponent(link)}`}>${link}</a>
      <p dir="auto">${reason}</p>
      <p class="soft">Since <${Time} atMs=${msOf(since)} nowMs=${nowMs} />${!permanent && html`, ${isOver ? 'the seller can lift it now' : html`the seller can lift it <${Time} atMs=${msOf(cooldownUntil)} nowMs=${nowMs} />`}`}</p>
    </div>
    <div class="row">${permanent && html`<${Badge} tone="bad">Permanent<//>`}
      <${Button} size="small" isBusy=${action.isBusy} aria-label=${`Check and lift ${title}`} onClick=${lift}>Check and lift<//></div>
    <${Fault} of=${action} />
  </li>`
}
