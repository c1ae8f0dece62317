import { html } from '../html.ts'
import { SiteShell } from '../site/siteShell.ts'

export interface GuideLinks {
  readonly title: string
  readonly guides: readonly { readonly name: string; readonly title: string }[]
}

export interface GuidePageProps {
  readonly serviceName: string
  readonly groups: readonly GuideLinks[]
  /** The guide that is shown; none on the first page. */
  readonly name?: string
  /** Trusted: the package's own text. */
  readonly text?: string
}

const intros: Readonly<Record<string, string>> = {
  Buyers: 'Find an API, call it, and pay from a program, an agent or a browser.',
  Sellers: 'Put a price on an API that you already run, and follow what it sells.',
  Operators: 'Run the gateway: deploy it, watch it, tune it.',
  'Owners of agents': 'Let an agent pay within limits, without your keys.',
}

/** The documentation: the guides by reader, and the guide that was chosen. */
export function GuidePage({ serviceName, groups, name, text }: GuidePageProps) {
  if (text === undefined)
    return html`<${SiteShell} serviceName=${serviceName} current="/docs">
      <div class="stack guide-start">
        <h1>Documentation</h1>
        <div class="guide-readers">
          ${groups.map(
            ({ title, guides }) => html`<section class="card stack" aria-label=${title}>
              <h2>${title}</h2>
              <p class="soft">${intros[title]}</p>
              <ul>${guides.map((guide) => html`<li><a href=${`/docs/${guide.name}`}>${guide.title}</a></li>`)}</ul>
            </section>`,
          )}
        </div>
      </div>
    <//>`
  return html`<${SiteShell} serviceName=${serviceName} current="/docs">
    <div class="guide-frame">
      <nav aria-label="Guides">
        <details class="guide-list">
          <summary>All guides</summary>
          <div class="stack">
            ${groups.map(
              ({ title, guides }) => html`<section>
                <h2 class="small">${title}</h2>
                <ul>${guides.map((guide) => html`<li><a class="site-link" href=${`/docs/${guide.name}`} aria-current=${guide.name === name ? 'page' : undefined}>${guide.title}</a></li>`)}</ul>
              </section>`,
            )}
          </div>
        </details>
      </nav>
      <div>
        <article class="guide" dangerouslySetInnerHTML=${{ __html: text }}></article>
        ${
          name === 'api' &&
          html`<section class="stack" aria-labelledby="every-route">
            <h2 id="every-route">Every route</h2>
            <link rel="stylesheet" href="/docs/api/ui/static/swagger-ui.css" />
            <div id="swagger-ui"></div>
            <noscript><p>To read and try every route here needs JavaScript. The same as a document: <a href="/openapi.json">openapi.json</a>.</p></noscript>
          </section>`
        }
      </div>
    </div>
  <//>`
}
