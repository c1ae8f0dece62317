import { Mark } from '../components/mark.ts'
import { type Children, html } from '../html.ts'

export interface SiteShellProps {
  readonly serviceName: string
  /** The navigation's entry that this page is. */
  readonly current?: string
  readonly children?: Children
}

const entries = [
  { href: '/', title: 'Marketplace' },
  { href: '/dashboard', title: 'Sell' },
  { href: '/docs', title: 'Docs' },
] as const

/** The frame of every page that anybody reads: the service's name, the way around, the page. */
export const SiteShell = ({ serviceName, current, children }: SiteShellProps) =>
  html`<div class="site">
    <header class="site-top">
      <a class="skip" href="#main">Skip to the content</a>
      <div>
        <a class="brand" href="/"><${Mark} />${serviceName}</a>
        <nav aria-label="Site">
          ${entries.map(
            ({ href, title }) =>
              html`<a class="site-link" href=${href} aria-current=${href === current ? 'page' : undefined}>${title}</a>`,
          )}
        </nav>
      </div>
    </header>
    <main class="site-main" id="main" tabindex="-1">${children}</main>
    <footer class="site-foot"><div>
      <span>Paid per call in USDC, by x402. Payments are final.</span>
      <a class="site-link" href="/llms.txt">For agents</a><a class="site-link" href="/openapi.json">OpenAPI</a><a class="site-link" href="/docs/api">API reference</a>
    </div></footer>
  </div>`
