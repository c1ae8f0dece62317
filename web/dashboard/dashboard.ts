import { Fragment, type VNode } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Empty, Notice, Skeleton } from '../components/card.ts'
import { showToast, Toasts } from '../components/dialog.ts'
import { html } from '../html.ts'
import { ApiFault, createApiClient } from '../shell/api.ts'
import { Frame } from '../shell/frame.ts'
import { usePath } from '../shell/path.ts'
import { LeaveDialog } from '../shell/unsaved.ts'
import { type DashboardData, entries, entryOf, forDevelopers } from './dashboardPage.ts'
import { type Seller, SellerContext, type SessionResponse } from './seller.ts'
import { SignIn } from './signIn.ts'
import { Developer } from './views/developer.ts'
import { Fees } from './views/fees.ts'
import { ImportLinks } from './views/importLinks.ts'
import { Link } from './views/link.ts'
import { Links } from './views/links.ts'
import { NewLink } from './views/newLink.ts'
import { NewSession } from './views/newSession.ts'
import { Overview } from './views/overview.ts'
import { Profile } from './views/profile.ts'
import { Purchase } from './views/purchase.ts'
import { Purchases } from './views/purchases.ts'
import { Reviews } from './views/reviews.ts'
import { Sessions } from './views/sessions.ts'
import { Webhook } from './views/webhook.ts'
import { Webhooks } from './views/webhooks.ts'

/** The view of an address. Views of different objects have different keys, so no field keeps the value of another object. */
function viewOf(path: string, query: URLSearchParams): VNode {
  const [, part = '', id] = /^\/dashboard(?:\/([a-z]+)(?:\/([\w-]+))?)?$/.exec(path) ?? [undefined, 'unknown']
  switch (part) {
    case '':
      return html`<${Overview} />`
    case 'links':
      if (id === 'new') return html`<${NewLink} />`
      if (id === 'import') return html`<${ImportLinks} />`
      if (id !== undefined) return html`<${Link} key=${id} id=${id} />`
      return html`<${Links} q=${query.get('q') ?? ''} state=${query.get('state') ?? ''} />`
    case 'purchases':
      if (id !== undefined) return html`<${Purchase} key=${id} id=${id} />`
      return html`<${Purchases} key=${String(query)} linkId=${query.get('linkId') ?? ''} status=${query.get('status') ?? ''} />`
    case 'sessions':
      if (id === 'new') return html`<${NewSession} />`
      return html`<${Sessions} key=${String(query)} status=${query.get('status') ?? ''} />`
    case 'fees':
      return html`<${Fees} />`
    case 'reviews':
      return html`<${Reviews} />`
    case 'webhooks':
      return id === undefined ? html`<${Webhooks} />` : html`<${Webhook} key=${id} id=${id} />`
    case 'profile':
      return html`<${Profile} />`
    case 'developer':
      return html`<${Developer} />`
    default:
      return html`<${Empty} title="No page exists at this address">
        <p>The page may have been moved or deleted.</p>
        <${Button} href="/dashboard">Go to the overview<//>
      <//>`
  }
}

type Session = SessionResponse | 'signed_out' | 'loading' | ApiFault

/** The dashboard. It loads the browser session, then shows the view of the address, or the sign-in page. */
export function Dashboard({ serviceName, publicUrl }: DashboardData) {
  const { path, query, go, leave, leaving } = usePath('/dashboard')
  const [session, setSession] = useState<Session>('loading')

  const loadSession = () => {
    createApiClient()<SessionResponse>('GET', '/api/dashboard/session').then(setSession, (fault: ApiFault) =>
      setSession(fault.status === 401 ? 'signed_out' : fault),
    )
  }
  useEffect(loadSession, [])

  const signedIn = typeof session === 'object' && 'csrfToken' in session ? session : undefined
  const seller = useMemo<Seller | undefined>(() => {
    if (signedIn === undefined) return
    const { store, csrfToken } = signedIn
    const client = createApiClient(csrfToken, ({ code }) =>
      code === 'UNAUTHORIZED' ? setSession('signed_out') : loadSession(),
    )
    // Scripts cannot read the cookie, so only the gateway can end the session. The page stays signed in until the gateway has
    // done that.
    const signOut = () =>
      void client('DELETE', '/api/dashboard/session').then(
        () => setSession('signed_out'),
        ({ message }: ApiFault) => showToast({ text: `You are still signed in. ${message}`, tone: 'bad' }),
      )
    return { api: client, csrfToken, store, serviceName, publicUrl, go, signOut, refresh: loadSession }
  }, [signedIn])

  const entry = entryOf(path)
  const title = seller === undefined ? 'Sign in' : (entry?.title ?? 'Not found')
  useEffect(() => {
    document.title = `${title} · ${serviceName}`
    // In a narrow window, the navigation is a row that scrolls. The current entry is scrolled into view.
    document
      .querySelector('.shell-nav [aria-current]')
      ?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [title])

  if (seller === undefined) {
    return html`<${Frame} serviceName=${serviceName} part="Dashboard" home="/" entries=${[]}>
      ${session === 'loading' && html`<${Skeleton} count=${3} isTall=${true} />`}
      ${session === 'signed_out' && html`<${SignIn} onSignedIn=${setSession} />`}
      ${
        session instanceof ApiFault &&
        html`<${Notice} tone="bad" title="The dashboard could not be loaded" requestId=${session.requestId} isAlert=${true}>
          <p>${session.message}</p><p><${Button} size="small" onClick=${loadSession}>Try again<//></p>
        <//>`
      }
    <//>`
  }
  const { store } = seller
  const shown = entries.filter(
    ({ href }) =>
      store.developerModeEnabled || href === '/dashboard/developer' || !forDevelopers.includes(href),
  )
  return html`<${SellerContext.Provider} value=${seller}>
    <${Frame}
      serviceName=${serviceName}
      part="Dashboard"
      home="/dashboard"
      entries=${shown}
      current=${entry?.href}
      owner=${html`<a class="shell-store" href=${store.storeUrl} dir="auto">${store.displayName}</a>
        <${Button} size="small" kind="quiet" onClick=${() => leave(seller.signOut)}>Sign out<//>`}
    ><${Fragment} key=${seller.csrfToken}>${viewOf(path, query)}<//><//>
    <${LeaveDialog} of=${leaving} />
    <${Toasts} />
  <//>`
}
