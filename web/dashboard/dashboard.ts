import { Fragment } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Notice } from '../components/notice.ts'
import { Skeleton } from '../components/skeleton.ts'
import { showToast, Toasts } from '../components/toast.ts'
import { ApiFault, createApiClient } from '../desk/api.ts'
import { Frame } from '../desk/frame.ts'
import { usePath } from '../desk/path.ts'
import { LeaveDialog } from '../desk/unsaved.ts'
import { html } from '../html.ts'
import type { DashboardData } from './dashboardPage.ts'
import { entries, entryOf, forDevelopers } from './navigation.ts'
import { type Seller, SellerContext, type SessionAnswer } from './seller.ts'
import { SignIn } from './signIn.ts'
import { viewOf } from './views.ts'

type Session = SessionAnswer | 'nobody' | 'asking' | ApiFault

/** The dashboard: asks who is signed in, and shows the view of the address or the way in. */
export function Dashboard({ serviceName, publicUrl }: DashboardData) {
  const { path, query, go, leave, leaving } = usePath('/dashboard')
  const [session, setSession] = useState<Session>('asking')

  const ask = () => {
    createApiClient()<SessionAnswer>('GET', '/api/dashboard/session').then(setSession, (fault: ApiFault) =>
      setSession(fault.status === 401 ? 'nobody' : fault),
    )
  }
  useEffect(ask, [])

  const signedIn = typeof session === 'object' && 'csrfToken' in session ? session : undefined
  const seller = useMemo<Seller | undefined>(() => {
    if (signedIn === undefined) return
    const { store, csrfToken } = signedIn
    const client = createApiClient(csrfToken, ({ code }) =>
      code === 'UNAUTHORIZED' ? setSession('nobody') : ask(),
    )
    // The cookie is out of reach for a script: until the service has ended it, nobody is signed out.
    const signOut = () =>
      void client('DELETE', '/api/dashboard/session').then(
        () => setSession('nobody'),
        ({ message }: ApiFault) => showToast({ text: `You are still signed in. ${message}`, tone: 'bad' }),
      )
    return { ...{ ask: client, csrfToken, store, serviceName, publicUrl, go, signOut }, refresh: ask }
  }, [signedIn])

  const entry = entryOf(path)
  const title = seller === undefined ? 'Sign in' : (entry?.title ?? 'Not found')
  useEffect(() => {
    document.title = `${title} · ${serviceName}`
    // Where the window is narrow the way around is a line that scrolls: where one is has to be seen in it.
    document.querySelector('.desk-nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [title])

  if (seller === undefined) {
    return html`<${Frame} serviceName=${serviceName} part="Dashboard" home="/" entries=${[]}>
      ${session === 'asking' && html`<${Skeleton} count=${3} isTall=${true} />`}
      ${session === 'nobody' && html`<${SignIn} onSignedIn=${setSession} />`}
      ${
        session instanceof ApiFault &&
        html`<${Notice} tone="bad" title="The dashboard could not be loaded" requestId=${session.requestId} isAlert=${true}>
          <p>${session.message}</p><p><${Button} size="small" onClick=${ask}>Try again<//></p>
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
      owner=${html`<a class="desk-store" href=${store.storeUrl} dir="auto">${store.displayName}</a>
        <${Button} size="small" kind="quiet" onClick=${() => leave(seller.signOut)}>Sign out<//>`}
    ><${Fragment} key=${seller.csrfToken}>${viewOf(path, query)}<//><//>
    <${LeaveDialog} of=${leaving} />
    <${Toasts} />
  <//>`
}
