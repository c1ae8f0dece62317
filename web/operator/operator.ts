import { Fragment } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Card, Empty, Notice, Skeleton } from '../components/card.ts'
import { Toasts } from '../components/dialog.ts'
import { Field } from '../components/field.ts'
import { Code } from '../components/tabs.ts'
import { html } from '../html.ts'
import { type ApiClient, ApiFault, createApiClient } from '../shell/api.ts'
import { useForm } from '../shell/form.ts'
import { Frame, type NavEntry, Title } from '../shell/frame.ts'
import { Load, useAction, useLoad } from '../shell/load.ts'
import { type Path, usePath } from '../shell/path.ts'
import type { OperatorData } from './operatorPage.ts'
import { Pipelines } from './pipelines.ts'
import { SettlingKeys } from './settlingKeys.ts'
import { Status } from './status.ts'
import { Stores } from './stores.ts'
import { Suspensions } from './suspensions.ts'

/** The configuration with which the gateway was started. */
function Configuration({ api }: { readonly api: ApiClient }) {
  const config = useLoad(() => api<object>('GET', '/api/operator/config'), [])
  return html`<div class="stack">
    <${Title}>Effective configuration<//>
    <${Card}>
      <p class="soft">This is the configuration at the start, with all defaults and without secrets. Plugins that were reloaded since then show under <a href="/operator/programs">Pipelines</a>.</p>
      <${Load} of=${config}>${(data: object) => html`<${Code} title="configuration" code=${JSON.stringify(data, null, 2)} />`}<//>
    <//>
  </div>`
}

interface SessionResponse {
  readonly csrfToken: string
}

type Session = SessionResponse | 'signed_out' | 'loading' | ApiFault

/** The operator's page. It loads the browser session, then shows the view or the sign-in form. */
export function Operator({ serviceName }: OperatorData) {
  const [session, setSession] = useState<Session>('loading')
  const loadSession = () => {
    createApiClient()<SessionResponse>('GET', '/api/operator/session').then(setSession, (fault: ApiFault) =>
      setSession(fault.status === 401 ? 'signed_out' : fault),
    )
  }
  useEffect(loadSession, [])
  if (typeof session === 'object' && 'csrfToken' in session) {
    const signedOut = () => setSession('signed_out')
    const client = createApiClient(session.csrfToken, signedOut)
    return html`<${SignedIn} serviceName=${serviceName} api=${client} onSignedOut=${signedOut} />`
  }
  return html`<${Frame} serviceName=${serviceName} part="Operator" home="/operator" entries=${[]}>
    ${session === 'loading' && html`<${Skeleton} count=${3} isTall=${true} />`}
    ${session === 'signed_out' && html`<${Transport} onSignedIn=${setSession} />`}
    ${
      session instanceof ApiFault &&
      html`<${Notice} tone="bad" title="The page could not be loaded" requestId=${session.requestId} isAlert=${true}>
        <p>${session.message}</p><p><${Button} size="small" onClick=${loadSession}>Try again<//></p>
      <//>`
    }
  <//>`
}

interface SignedInProps {
  readonly serviceName: string
  readonly api: ApiClient
  readonly onSignedOut: () => void
}

function SignedIn({ serviceName, api, onSignedOut }: SignedInProps) {
  const { path, query, go } = usePath('/operator')
  const entry = entries.find(({ href }) => href === path)
  const title = entry?.title ?? 'Not found'
  useEffect(() => {
    document.title = `${title} · ${serviceName}`
    // In a narrow window, the navigation is a row that scrolls. The current entry is scrolled into view.
    document
      .querySelector('.shell-nav [aria-current]')
      ?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [title])
  const signOut = () => api('DELETE', '/api/operator/session').then(onSignedOut, onSignedOut)
  return html`<${Frame}
    serviceName=${serviceName}
    part="Operator"
    home="/operator"
    entries=${entries}
    current=${entry?.href}
    owner=${html`<${Button} size="small" kind="quiet" onClick=${signOut}>Sign out<//>`}
  ><${Fragment} key=${path + query}>${viewOf({ path, query, go, api, onSignedOut })}<//><//><${Toasts} />`
}

/** The views, most used first. */
const entries: readonly NavEntry[] = [
  { href: '/operator', title: 'Status' },
  { href: '/operator/keys', title: 'Settling keys' },
  { href: '/operator/stores', title: 'Stores' },
  { href: '/operator/suspensions', title: 'Suspensions' },
  { href: '/operator/programs', title: 'Pipelines' },
  { href: '/operator/configuration', title: 'Configuration' },
]

interface ViewProps extends Pick<Path, 'path' | 'query' | 'go'>, Pick<SignedInProps, 'api' | 'onSignedOut'> {}

function viewOf({ path, query, go, api, onSignedOut }: ViewProps) {
  const of = (name: string) => query.get(name) ?? ''
  switch (path) {
    case '/operator':
      return html`<${Status} api=${api} onSignedOut=${onSignedOut} />`
    case '/operator/keys':
      return html`<${SettlingKeys} api=${api} />`
    case '/operator/stores':
      return html`<${Stores} api=${api} search=${of('search')} after=${of('after')} go=${go} />`
    case '/operator/suspensions':
      return html`<${Suspensions} api=${api} />`
    case '/operator/programs':
      return html`<${Pipelines} api=${api} link=${of('link')} go=${go} />`
    case '/operator/configuration':
      return html`<${Configuration} api=${api} />`
    default:
      return html`<${Empty} title="No page exists at this address"><${Button} href="/operator">Go to the status<//><//>`
  }
}

const transportNames = {
  token: {
    expected: 'Enter the operator token.',
    UNAUTHORIZED: 'This is not the operator token.',
  },
}

function Transport({ onSignedIn }: { readonly onSignedIn: (session: SessionResponse) => void }) {
  const action = useAction()
  const form = useForm({ token: '' }, action, transportNames)
  const send = form.submit(async ({ token }) =>
    onSignedIn(await createApiClient()<SessionResponse>('POST', '/api/operator/session', { token })),
  )
  return html`<${Card} class="shell-sign-in">
    <h1>Sign in as the operator</h1>
    <p class="soft">Use the token <code>operator.token</code> from the configuration.</p>
    <form class="stack" ref=${form.ref} onSubmit=${send} novalidate>
      <${Field} ...${form.at('token')} label="Token" type="password" autocomplete="current-password" required />
      ${form.line}
      <div class="row"><${Button} kind="primary" type="submit" isBusy=${action.isBusy}>Sign in<//></div>
    </form>
  <//>`
}
