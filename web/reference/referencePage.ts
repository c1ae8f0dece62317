import { html } from '../html.ts'
import { SiteShell } from '../site/siteShell.ts'

/** Every route of the gateway, to read and try. `entry.ts` loads Swagger UI into the page. */
export const ReferencePage = ({ serviceName }: { readonly serviceName: string }) =>
  html`<${SiteShell} serviceName=${serviceName} current="/docs/">
    <div class="stack">
      <h1>API reference</h1>
      <p class="soft">
        Read and try every route here. The same list as a file: <a href="/openapi.json">openapi.json</a>. How to use
        them: <a href="/docs/">documentation</a>.
      </p>
      <link rel="stylesheet" href="/docs/api/ui/static/swagger-ui.css" />
      <div id="swagger-ui"></div>
      <noscript><p>This list needs JavaScript.</p></noscript>
    </div>
  <//>`
