import { Badge } from '../components/badge.ts'
import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { Empty } from '../components/empty.ts'
import { Time } from '../components/time.ts'
import { showToast } from '../components/toast.ts'
import type { ApiClient } from '../desk/api.ts'
import { Fault, Load, useAction, useLoad } from '../desk/load.ts'
import { Title } from '../desk/title.ts'
import { msOf } from '../desk/words.ts'
import { html } from '../html.ts'

interface SuspendedAnswer {
  readonly id: string
  readonly title: string
  readonly link: string
  readonly reason: string
  readonly since: string
  readonly cooldownUntil: string
  readonly permanent: boolean
}

interface SuspensionsAnswer {
  readonly total: number
  readonly rows: readonly SuspendedAnswer[]
}

/** Which links take no calls, and why. */
export function Suspensions({ ask }: { readonly ask: ApiClient }) {
  const suspensions = useLoad(() => ask<SuspensionsAnswer>('GET', '/api/operator/suspensions'), [])
  return html`<div class="stack">
    <${Title}>Suspensions<//>
    <p class="soft">Suspended by failed health checks and calls, never by a person. Sellers lift theirs when the cooldown is over and the API is well again; a permanent one only you can lift.</p>
    <${Load} of=${suspensions}>${({ total, rows }: SuspensionsAnswer) =>
      rows.length === 0
        ? html`<${Empty} title="No link is suspended"><p>One whose API fails again and again would stand here, with the reason.</p><//>`
        : html`<${Card} title=${total === 1 ? 'One link' : `${total} links`}>
            <ul class="desk-list">${rows.map((row) => html`<${Suspended} key=${row.id} ask=${ask} row=${row} onLifted=${suspensions.reload} />`)}</ul>
            ${total > rows.length && html`<p class="soft">The ${rows.length} that were suspended last.</p>`}
          <//>`}<//>
  </div>`
}

interface SuspendedProps {
  readonly ask: ApiClient
  readonly row: SuspendedAnswer
  readonly onLifted: () => void
}

function Suspended({ ask, row, onLifted }: SuspendedProps) {
  const { id, title, link, reason, since, cooldownUntil, permanent } = row
  const action = useAction()
  const nowMs = Date.now()
  const lift = () =>
    action.run(async () => {
      await ask('POST', `/api/operator/suspensions/${id}/lift`)
      showToast({ text: `${title} takes calls again.` })
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
