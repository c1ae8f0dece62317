import { Button } from '../components/button.ts'
import { html } from '../html.ts'
import { SiteShell } from './siteShell.ts'

/** The same words for whatever is not there, so that they say nothing of what is hidden. */
export const NotFoundPage = ({ serviceName }: { readonly serviceName: string }) =>
  html`<${SiteShell} serviceName=${serviceName}>
    <div class="stack lost">
      <h1>There is nothing at this address</h1>
      <p class="soft">The store or link may have another name by now, or was taken away.</p>
      <p class="row"><${Button} kind="primary" href="/">Look in the marketplace<//><${Button} href="/docs">Documentation<//></p>
    </div>
  <//>`
