import type { VNode } from 'preact'
import { Button } from '../components/button.ts'
import { Empty } from '../components/empty.ts'
import { html } from '../html.ts'
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

/** The view of an address. Of another thing it is another view: nothing of the one before stays in its fields. */
export function viewOf(path: string, query: URLSearchParams): VNode {
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
      return html`<${Empty} title="There is nothing at this address">
        <p>It may have been moved or taken away.</p>
        <${Button} href="/dashboard">Go to the overview<//>
      <//>`
  }
}
