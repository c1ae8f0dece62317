import { Fragment } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { Empty } from '../components/empty.ts'
import { Field } from '../components/field.ts'
import { Notice } from '../components/notice.ts'
import { Skeleton } from '../components/skeleton.ts'
import { Toasts } from '../components/toast.ts'
import { type ApiClient, ApiFault, createApiClient } from '../desk/api.ts'
import { useForm } from '../desk/form.ts'
import { Frame, type NavEntry } from '../desk/frame.ts'
import { useAction } from '../desk/load.ts'
import { type Path, usePath } from '../desk/path.ts'
import { html } from '../html.ts'
import { Configuration } from './configuration.ts'
import type { OperatorData } from './operatorPage.ts'
import { Programs } from './programs.ts'
import { SettlingKeys } from './settlingKeys.ts'
import { Status } from './status.ts'
import { Stores } from './stores.ts'
import { Suspensions } from './suspensions.ts'

interface SessionAnswer {
  readonly csrfToken: string
}

type Session = SessionAnswer | 'nobody' | 'asking' | ApiFault

/** The operator's page: asks who is signed in, and shows the state of the service or the way in. */
export function Operator({ serviceName }: OperatorData) {
  const [session, setSession] = useState<Session>('asking')
  const ask = () => {
    createApiClient()<SessionAnswer>('GET', '/api/operator/session').then(setSession, (fault: ApiFault) =>
      setSession(fault.status === 401 ? 'nobody' : fault),
    )
  }
  useEffect(ask, [])
  if (typeof session === 'object' && 'csrfToken' in session) {
    const signedOut = () => setSession('nobody')
    const client = createApiClient(session.csrfToken, signedOut)
    return html`<${SignedIn} serviceName=${serviceName} ask=${client} onSignedOut=${signedOut} />`
  }
  return html`<${Frame} serviceName=${serviceName} part="Operator" home="/operator" entries=${[]}>
    ${session === 'asking' && html`<${Skeleton} count=${3} isTall=${true} />`}
    ${session === 'nobody' && html`<${Door} onSignedIn=${setSession} />`}
    ${
      session instanceof ApiFault &&
      html`<${Notice} tone="bad" title="The page could not be loaded" requestId=${session.requestId} isAlert=${true}>
        <p>${session.message}</p><p><${Button} size="small" onClick=${ask}>Try again<//></p>
      <//>`
    }
  <//>`
}

interface SignedInProps {
  readonly serviceName: string
  readonly ask: ApiClient
  readonly onSignedOut: () => void
}

function SignedIn({ serviceName, ask, onSignedOut }: SignedInProps) {
  const { path, query, go } = usePath('/operator')
  const entry = entries.find(({ href }) => href === path)
  const title = entry?.title ?? 'Not found'
  useEffect(() => {
    document.title = `${title} · ${serviceName}`
    // Where the window is narrow the way around is a line that scrolls: where one is has to be seen in it.
    document.querySelector('.desk-nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [title])
  const signOut = () => ask('DELETE', '/api/operator/session').then(onSignedOut, onSignedOut)
  return html`<${Frame}
    serviceName=${serviceName}
    part="Operator"
    home="/operator"
    entries=${entries}
    current=${entry?.href}
    owner=${html`<${Button} size="small" kind="quiet" onClick=${signOut}>Sign out<//>`}
  ><${Fragment} key=${path + query}>${viewOf({ path, query, go, ask, onSignedOut })}<//><//><${Toasts} />`
}

/** The views, in the order of how often they are needed. */
const entries: readonly NavEntry[] = [
  { href: '/operator', title: 'State' },
  { href: '/operator/keys', title: 'Settling keys' },
  { href: '/operator/stores', title: 'Stores' },
  { href: '/operator/suspensions', title: 'Suspensions' },
  { href: '/operator/programs', title: 'Programs' },
  { href: '/operator/configuration', title: 'Configuration' },
]

interface ViewProps extends Pick<Path, 'path' | 'query' | 'go'>, Pick<SignedInProps, 'ask' | 'onSignedOut'> {}

function viewOf({ path, query, go, ask, onSignedOut }: ViewProps) {
  const of = (name: string) => query.get(name) ?? ''
  switch (path) {
    case '/operator':
      return html`<${Status} ask=${ask} onSignedOut=${onSignedOut} />`
    case '/operator/keys':
      return html`<${SettlingKeys} ask=${ask} />`
    case '/operator/stores':
      return html`<${Stores} ask=${ask} search=${of('search')} after=${of('after')} go=${go} />`
    case '/operator/suspensions':
      return html`<${Suspensions} ask=${ask} />`
    case '/operator/programs':
      return html`<${Programs} ask=${ask} link=${of('link')} go=${go} />`
    case '/operator/configuration':
      return html`<${Configuration} ask=${ask} />`
    default:
      return html`<${Empty} title="There is nothing here"><${Button} href="/operator">To the state of the service<//><//>`
  }
}

const doorWords = {
  token: {
    expected: 'Enter the token of the configuration.',
    UNAUTHORIZED: 'This is not the token of the operator.',
  },
}

function Door({ onSignedIn }: { readonly onSignedIn: (session: SessionAnswer) => void }) {
  const action = useAction()
  const form = useForm({ token: '' }, action, doorWords)
  const send = form.submit(async ({ token }) =>
    onSignedIn(await createApiClient()<SessionAnswer>('POST', '/api/operator/session', { token })),
  )
  return html`<${Card} class="desk-door">
    <h1>Sign in as the operator</h1>
    <p class="soft">With the token that the configuration names: <code>operator.token</code>.</p>
    <form class="stack" ref=${form.ref} onSubmit=${send} novalidate>
      <${Field} ...${form.at('token')} label="Token" type="password" autocomplete="current-password" required />
      ${form.line}
      <div class="row"><${Button} kind="primary" type="submit" isBusy=${action.isBusy}>Sign in<//></div>
    </form>
  <//>`
}
