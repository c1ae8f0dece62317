import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Button, Icon } from '../../../../web/components/button.ts'
import { Badge, Notice } from '../../../../web/components/card.ts'
import { Field } from '../../../../web/components/field.ts'
import { Code } from '../../../../web/components/tabs.ts'
import { type Children, html } from '../../../../web/html.ts'
import { useAction } from '../../../../web/shell/load.ts'
import type { ApprovalView } from '../../../approvals/approval.ts'
import { Parts } from '../elements.ts'
import { Budget } from '../policies/budget.ts'
import { call, vaultNow } from '../session.ts'
import { approvals } from '../store.ts'
import { chainTitle, leftUntil, Moment, shortHash, stateOf, toneOf } from '../words.ts'
import { kindOf, summaryOf } from './kinds.ts'
import { createStillness } from './stillness.ts'

/** Interval of the countdown and of the check whether the card has moved, in ms. */
const TICK_MS = 100
const EXPIRES_SOON_MS = 60_000

interface ApprovalCardProps {
  readonly approval: ApprovalView
  /** True if this card replaces a card with other content. */
  readonly isChanged: boolean
}

/**
 * One approval. The owner approves exactly what this card shows, because the request contains the card's decision hash, and the
 * vault refuses any other. The buttons work only after the card has not moved for a moment. They are enabled in the DOM at once
 * and not with the next render.
 */
export function ApprovalCard({ approval, isChanged }: ApprovalCardProps) {
  const { id, agent, decision_hash, expires_at, status, opaque, warnings, parts } = approval
  const { second_word: word, approve_command: command } = approval
  const kind = kindOf(approval)
  const isOpen = status === 'pending'
  const action = useAction()
  const [typed, setTyped] = useState('')
  const card = useRef<HTMLElement>(null)
  const left = useRef<HTMLElement>(null)
  const approve = useRef<HTMLElement>(null)
  const deny = useRef<HTMLElement>(null)
  const isBusy = useRef(false)
  const isStill = useMemo(() => createStillness(() => positionOf(card.current)), [])
  const hasWord = word === null || typed.trim().toLowerCase() === word.toLowerCase()

  /** The buttons are not `disabled`, because the card would lose the keyboard focus. */
  const showReady = () => {
    const isReady = isOpen && isStill() && !isBusy.current
    approve.current?.setAttribute('aria-disabled', String(!isReady || !hasWord))
    deny.current?.setAttribute('aria-disabled', String(!isReady))
    return isReady
  }
  // This runs before the card is painted, so that a card is never shown without its remaining time.
  useLayoutEffect(() => {
    const tick = () => {
      if (left.current === null) return
      const time = leftUntil(expires_at, vaultNow())
      if (left.current.textContent !== time) left.current.textContent = time
      left.current.dataset['tone'] = Date.parse(expires_at) - vaultNow() < EXPIRES_SOON_MS ? 'bad' : 'plain'
      showReady()
    }
    tick()
    const timer = setInterval(tick, TICK_MS)
    return () => clearInterval(timer)
  })

  const decide = async (verb: 'approve' | 'deny', body: object) => {
    if (!showReady()) return
    isBusy.current = true
    showReady()
    await action.run(async () => {
      try {
        approvals.apply(await call<ApprovalView>('POST', `/approvals/${id}/${verb}`, body))
      } catch (error) {
        // Another channel may have decided first.
        await call<ApprovalView>('GET', `/approvals/${id}`).then(approvals.apply, () => {})
        throw error
      }
    })
    isBusy.current = false
    showReady()
  }
  const onApprove = () => {
    if (hasWord) void decide('approve', { decision_hash, ...(word !== null && { second_word: word }) })
    else card.current?.querySelector('input')?.focus()
  }
  const label = word === null ? 'Approve' : 'Approve anyway'
  const about = `${warnings.length} ${warnings.length === 1 ? 'warning' : 'warnings'}`

  return html`<article class="card vault-ask" ref=${card} aria-label=${`What ${agent} asks for`} data-id=${id} data-tone=${kind.tone} data-status=${status}>
    <header>
      <span class="vault-kind"><${Icon} name=${kind.icon} /></span>
      <div><h2>${kind.title}</h2><p class="soft"><strong>${agent}</strong> asks</p></div>
      <span class="vault-left" ref=${left} role="timer" aria-label="Time left"></span>
    </header>
    ${isChanged && html`<${Notice} tone="warn" title="This request changed. Read it again." isAlert=${true} />`}
    ${opaque && html`<${Notice} tone="bad" title="Not fully decoded"><p>The vault could not decode the whole request. The request may do anything. If in doubt, deny it.</p><//>`}
    <${Subject} ...${approval} />
    <${Identity} ...${approval} />
    ${warnings.length > 0 && html`<${Notice} tone="warn" title=${warnings.length === 1 ? 'Warning' : 'Warnings'}>${listOf(warnings)}<//>`}
    <${Part} title="Why you are asked">${listOf(approval.reasons)}<//>
    <${Part} title="What happens">${listOf(approval.effects)}<//>
    ${
      approval.purpose !== null &&
      html`<${Part} title=${html`Purpose <span class="vault-by">from the agent, unchecked</span>`}>
        <p class="vault-said" dir="ltr"><bdi>${approval.purpose}</bdi></p>
      <//>`
    }
    ${parts.length > 0 && html`<${Parts} parts=${parts} />`}
    ${
      command !== null &&
      html`<${Part} title="How to approve this">
        <p>This approval gives the agent the secret itself, so this page can only deny the request. To approve the request, use your chat, or run this command in a terminal on this machine:</p>
        <${Code} title="command" code=${command} />
      <//>`
    }
    ${!opaque && approval.amount !== null && html`<${Part} title="Budget today"><${Budget} ...${approval} /><//>`}
    <footer class="row soft small">
      <span>Asked <${Moment} at=${approval.created_at} /></span>
      <span title=${decision_hash}>Decision <code>${shortHash(decision_hash)}</code></span>
    </footer>
    ${action.fault && html`<${Notice} tone="bad" title=${action.fault.message} isAlert=${true} />`}
    <${Decision} approval=${approval}>
      <p class="bar-about">${summaryOf(approval)}${warnings.length > 0 && html`<strong class="vault-warned"> · ${about}</strong>`}</p>
      ${
        word !== null &&
        html`<${Field}
          id=${`word-${id}`} name="second_word" label=${`Type “${word}” to approve anyway`} value=${typed} onInput=${setTyped}
          autocomplete="off" autocorrect="off" autocapitalize="off" spellcheck=${false}
        />`
      }
      <div class="vault-decide">
        ${command === null && html`<${Button} kind=${word === null ? 'primary' : 'warn'} ref=${approve} aria-disabled="true" onClick=${onApprove}>${label}<//>`}
        <${Button} kind="danger" ref=${deny} aria-disabled="true" onClick=${() => decide('deny', {})}>Deny<//>
      </div>
    <//>
  </article>`
}

/** The card's position on the page and its size, independent of scrolling. */
function positionOf(card: HTMLElement | null): string {
  const { top = 0, height = 0 } = card?.getBoundingClientRect() ?? {}
  return `${Math.round(top + window.scrollY)} ${Math.round(height)}`
}

/**
 * The buttons, then the outcome. When the buttons disappear, their space stays, so that nothing else moves under the pointer.
 * Keyboard focus stays on this card.
 */
function Decision({ approval, children }: { readonly approval: ApprovalView; readonly children?: Children }) {
  const { status, decided_by } = approval
  const isOpen = status === 'pending'
  const end = useRef<HTMLElement>(null)
  const result = useRef<HTMLElement>(null)
  useLayoutEffect(() => {
    if (end.current?.contains(document.activeElement)) result.current?.focus({ preventScroll: true })
  }, [isOpen])
  return html`<div class="vault-decision" ref=${end}>
    <div class="vault-bar" inert=${!isOpen}>${children}</div>
    ${
      !isOpen &&
      html`<p class="result" ref=${result} role="status" tabindex="-1">
        <${Badge} tone=${toneOf(status)}>${stateOf(status)}<//>${decided_by !== null && html`<span> by ${decided_by}</span>`}
      </p>`
    }
  </div>`
}

/** The subject at a glance: money and the other party, or a scope. */
function Subject(approval: ApprovalView) {
  const { amount, currency, recipient, chain, scope, opaque } = approval
  const { lead, party = 'to' } = kindOf(approval)
  const where = chain === null ? '' : ` on ${chainTitle(chain)}`
  if (amount === null)
    return html`<p><code>${scope ?? recipient ?? ''}</code>${where}</p>
      ${scope !== null && recipient !== null && html`<p class="soft">${party} <code>${recipient}</code></p>`}`
  // If the bytes could not be decoded, the amount is only the agent's claim.
  if (opaque)
    return html`<p class="soft">${`The agent claims that the request moves ${amount} ${currency ?? ''}${where}. The vault could not verify the claim.`}</p>`
  const size = amount.length > 14 ? 'wide' : ''
  return html`<div>
    ${lead !== undefined && html`<p class="vault-lead">${lead}</p>`}
    <p class=${`amount big long ${size}`}>${`${amount} ${currency ?? ''}`}<small>${where}</small></p>
    ${recipient !== null && html`<p class="soft">${party} <code>${recipient}</code></p>`}
  </div>`
}

/** A time with its seconds, which distinguish two equal requests. */
const secondOf = (iso: string) => `${iso.slice(0, 19).replace('T', ' ')} UTC`

/** The details that distinguish two equal requests. */
function Identity({ from, nonce, first_time, asked_before: before }: ApprovalView) {
  if (first_time !== true && before === null && from === null) return null
  return html`<ul>
    ${first_time === true && html`<li><strong>First time to this address</strong></li>`}
    ${before !== null && html`<li><strong>${`Asked before at ${secondOf(before.at)}, ${stateOf(before.status).toLowerCase()}`}</strong></li>`}
    ${from !== null && html`<li class="soft">From <code>${from}</code>${nonce !== null && `, nonce ${nonce}`}</li>`}
  </ul>`
}

const Part = ({ title, children }: { readonly title: Children; readonly children?: Children }) =>
  html`<section class="vault-part"><h3>${title}</h3>${children}</section>`

const listOf = (texts: readonly string[]) =>
  html`<ul class="stack tight">${texts.map((text) => html`<li><bdi>${text}</bdi></li>`)}</ul>`
