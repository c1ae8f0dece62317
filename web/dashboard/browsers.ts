import { Badge } from '../components/badge.ts'
import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { Time } from '../components/time.ts'
import { Fault, Load, useAction, useLoad } from '../desk/load.ts'
import { msOf } from '../desk/words.ts'
import { html } from '../html.ts'
import { useSeller } from './seller.ts'

interface BrowserAnswer {
  readonly id: string
  readonly isThisOne: boolean
  readonly wallet: { readonly chain: string; readonly address: string } | null
  readonly userAgent: string
  readonly lastSeenAt: string
}

/** The browsers that are signed in, each of which can be signed out from here. */
export function Browsers() {
  const { ask } = useSeller()
  const loaded = useLoad(
    () => ask<{ sessions: readonly BrowserAnswer[] }>('GET', '/api/dashboard/sessions'),
    [],
  )
  const action = useAction()
  const end = (id: string) =>
    action.run(async () => {
      await ask('DELETE', `/api/dashboard/sessions/${id}`)
      loaded.reload()
    })
  const draw = ({ sessions }: { sessions: readonly BrowserAnswer[] }) => html`<ul class="desk-list">
    ${sessions.map(
      ({ id, isThisOne, userAgent, lastSeenAt }) => html`<li key=${id}>
        <div><strong>${nameOf(userAgent)}</strong> ${isThisOne && html`<${Badge} tone="good">This browser<//>`}
          <p class="soft small">Seen <${Time} atMs=${msOf(lastSeenAt)} nowMs=${Date.now()} /></p></div>
        ${!isThisOne && html`<${Button} size="small" kind="danger" isBusy=${action.isBusy} onClick=${() => end(id)}>Sign out<//>`}
      </li>`,
    )}
  </ul>`
  return html`<${Card} title="Signed-in browsers"><div class="stack"><${Fault} of=${action} /><${Load} of=${loaded}>${draw}<//></div><//>`
}

/** `Firefox on Linux`, as far as a browser's name for itself says so. */
function nameOf(userAgent: string): string {
  const browser = /Edg|Firefox|Chrome|Safari/.exec(userAgent)?.[0]?.replace('Edg', 'Edge') ?? 'A browser'
  const system = /Android|iPhone|iPad|Windows|Mac OS|Linux/.exec(userAgent)?.[0]
  return system === undefined ? browser : `${browser} on ${system}`
}
