import { useRef, useState } from 'preact/hooks'
import { Button, Icon } from '../../../../web/components/button.ts'
import { Badge, Empty } from '../../../../web/components/card.ts'
import { html } from '../../../../web/html.ts'
import { Title } from '../../../../web/shell/frame.ts'
import type { ApprovalView } from '../../../approvals/approval.ts'
import { approvals } from '../store.ts'
import { useWatched } from '../watched.ts'
import { Moment, stateOf, toneOf } from '../words.ts'
import { ApprovalCard } from './approvalCard.ts'
import { notifications } from './attention.ts'
import { kindOf } from './kinds.ts'

const SHOWN_AT_FIRST = 20
const SHOWN_MORE = 100

/**
 * Open and decided approvals. A card stays in place when it is decided, and new ones appear below, so that nothing moves under
 * the pointer.
 */
export function Approvals() {
  useWatched(approvals.watch)
  const [shown, setShown] = useState(SHOWN_AT_FIRST)
  /** The decision hash of each approval's first card. If an approval changes, it gets a new card, which says so. */
  const cards = useRef(new Map<string, string>()).current!
  for (const { id, decision_hash } of approvals.waiting) if (!cards.has(id)) cards.set(id, decision_hash)
  const open = [...cards.keys()].flatMap((id) => approvals.get(id) ?? [])
  const past = approvals.all.filter(({ id, status }) => status !== 'pending' && !cards.has(id))
  return html`<div class="stack">
    <${Title} actions=${notifications.isPossible && html`<${NotifyButton} />`}>Approvals<//>
    ${open.map((approval) => {
      const { id, decision_hash } = approval
      const isChanged = cards.get(id) !== decision_hash
      return html`<${ApprovalCard} key=${`${id} ${decision_hash}`} approval=${approval} isChanged=${isChanged} />`
    })}
    ${
      open.length === 0 &&
      html`<${Empty} title="Nothing to approve">
        <p>When an agent requests something that your policies do not allow, the request appears here.</p>
        <p>Agents reach this vault at <code>${location.origin}</code>.</p>
      <//>`
    }
    ${
      past.length > 0 &&
      html`<section class="stack" aria-labelledby="history">
        <h2 id="history">History</h2>
        <ul class="shell-list card">${past.slice(0, shown).map((approval) => html`<${HistoryRow} key=${approval.id} ...${approval} />`)}</ul>
        ${past.length > shown && html`<div><${Button} onClick=${() => setShown(shown + SHOWN_MORE)}>Show more<//></div>`}
      </section>`
    }
  </div>`
}

const HistoryRow = (approval: ApprovalView) => {
  const { agent, effects, status, decided_by, decided_at, created_at } = approval
  return html`<li class="vault-row">
    <div><strong>${agent}</strong> ${kindOf(approval).title}<div class="soft"><bdi>${effects[0] ?? ''}</bdi></div></div>
    <div class="vault-end">
      <${Badge} tone=${toneOf(status)}>${stateOf(status)}<//>
      <span class="soft small"><${Moment} at=${decided_at ?? created_at} />${decided_by !== null && ` by ${decided_by}`}</span>
    </div>
  </li>`
}

function NotifyButton() {
  const [isOn, setOn] = useState(notifications.isOn)
  const toggle = async () => {
    if (isOn) notifications.turnOff()
    else await notifications.turnOn()
    setOn(notifications.isOn)
  }
  return html`<${Button} size="small" aria-pressed=${String(isOn)} onClick=${toggle}>
    <${Icon} name="bell" />${isOn ? 'Notifications are on' : 'Notify me on the desktop'}
  <//>`
}
