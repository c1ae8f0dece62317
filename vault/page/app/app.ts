import { Fragment } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Button } from '../../../web/components/button.ts'
import { Badge, Notice, Skeleton } from '../../../web/components/card.ts'
import { Toasts } from '../../../web/components/dialog.ts'
import { html } from '../../../web/html.ts'
import { Frame } from '../../../web/shell/frame.ts'
import { Activity } from './activity/activity.ts'
import { Agents } from './agents/agents.ts'
import { Pairing } from './agents/pairing.ts'
import { Approvals } from './approvals/approvals.ts'
import { type PageState, page, type Status } from './pageState.ts'
import { Policies } from './policies/policies.ts'
import { vaultNow } from './session.ts'
import { approvals } from './store.ts'
import { SignIn, Unlock } from './unlock.ts'
import { useWatched } from './watched.ts'
import { leftUntil } from './words.ts'

const views = [
  { href: '#approvals', title: 'Approvals', view: Approvals },
  { href: '#activity', title: 'Activity', view: Activity },
  { href: '#agents', title: 'Agents', view: Agents },
  { href: '#policies', title: 'Policies', view: Policies },
  { href: '#pairing', title: 'Pairing', view: Pairing },
] as const
const viewAt = (hash: string) => (hash === '' ? views[0] : views.find(({ href }) => href === hash))

/** The page: the frame, the vault's warnings, and the screen for the vault's state. */
export function App() {
  useWatched(page.watch)
  useWatched(approvals.watch)
  const { screen, status } = page.state
  const [shown, setShown] = useState(() => viewAt(location.hash) ?? views[0])
  useEffect(() => {
    const follow = () => {
      if (page.takeCode()) return
      const next = viewAt(location.hash)
      if (next === undefined || page.state.screen !== 'open') return
      setShown(next)
      document.getElementById('main')?.focus()
    }
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  const entries = views.map(({ href, title }, i) => ({
    href,
    title,
    ...(i === 0 && { count: approvals.waiting.length }),
  }))
  const isOpen = screen === 'open'
  return html`<${Frame}
      serviceName="Tollgate"
      part="Vault"
      home="#approvals"
      entries=${isOpen ? entries : []}
      current=${shown.href}
      owner=${screen !== 'sign-in' && html`<${OwnersEnd} status=${status} canLock=${isOpen} />`}
    >
      <${Banners} of=${page.state} />
      <${Fragment} key=${isOpen ? shown.href : screen}>${isOpen ? html`<${shown.view} />` : screenOf(page.state)}<//>
    <//>${page.state.secret}<${Toasts} />`
}

function screenOf({ screen, problem, status }: PageState) {
  if (screen === 'sign-in') return html`<${SignIn} problem=${problem} />`
  if (screen === 'locked' && status) return html`<${Unlock} status=${status} />`
  return html`<${Skeleton} isTall=${true} />`
}

/** The lock state of the vault, and the buttons to lock it and to sign out. */
function OwnersEnd({ status, canLock }: { readonly status?: Status; readonly canLock: boolean }) {
  const minutes = Number.parseInt(leftUntil(status?.idle_locks_at ?? '', vaultNow()), 10) || 0
  const words = status?.locked ? 'Locked' : `Open, locks in ${minutes < 1 ? 'a minute' : `${minutes} min`}`
  return html`<span class="vault-state">
    ${status && html`<${Badge} tone=${status.locked ? 'warn' : 'good'}>${words}<//>`}
    ${canLock && html`<${Button} size="small" onClick=${page.lock}>Lock<//>`}
    <${Button} size="small" kind="quiet" onClick=${page.signOut}>Sign out<//>
  </span>`
}

/** Banners above every view. Screen readers announce each one when it appears. */
function Banners({ of: { isLost, notice, status } }: { readonly of: PageState }) {
  const { warnings = [], log_damage = null } = status ?? {}
  const isDamageReported = warnings.some(({ message }) => message.includes(log_damage ?? ''))
  const damage = {
    message: `The log is damaged: ${log_damage}`,
    action:
      'Verify the log under Activity. If you do not know the reason, restore a backup and give your agents new tokens.',
  }
  const all = [...(log_damage === null || isDamageReported ? [] : [damage]), ...warnings]
  return html`<div class="vault-banners">
    <div role="status">
      ${isLost && html`<${Notice} tone="warn" title="The vault does not respond."><p>Start the vault with <code>tollgate vault</code>. This page reconnects on its own.</p><//>`}
      ${notice !== undefined && html`<${Notice} tone="warn" title=${notice}><${Button} size="small" onClick=${page.dismissNotice}>Dismiss<//><//>`}
    </div>
    <section aria-label="Warnings of the vault" aria-live="polite" hidden=${all.length === 0}>
      ${all.map(
        ({ message, action }) =>
          html`<${Notice} key=${message} tone="warn" title=${html`<bdi>${message}</bdi>`}>${action && html`<bdi>${action}</bdi>`}<//>`,
      )}
    </section>
  </div>`
}
