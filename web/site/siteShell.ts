import { Button, Mark } from '../components/button.ts'
import { type Children, html } from '../html.ts'

/** The page for everything that is missing. The text is always the same, so that it does not reveal what is hidden. */
export const NotFoundPage = ({ serviceName }: { readonly serviceName: string }) =>
  html`<${SiteShell} serviceName=${serviceName}>
    <div class="stack lost">
      <h1>No page exists at this address</h1>
      <p class="soft">The store or link may have been renamed or deleted.</p>
      <p class="row"><${Button} kind="primary" href="/">Browse the marketplace<//><${Button} href="/docs/">Documentation<//></p>
    </div>
  <//>`

export interface SiteShellProps {
  readonly serviceName: string
  /** Navigation entry of this page. */
  readonly current?: string
  readonly children?: Children
}

const entries = [
  { href: '/', title: 'Marketplace' },
  { href: '/dashboard', title: 'Sell' },
  { href: '/docs/', title: 'Docs' },
] as const

/** The gateway's name and the navigation, on every page. */
export const SiteLinks = ({ serviceName, current }: Omit<SiteShellProps, 'children'>) => [
  html`<a class="brand" href="/"><${Mark} />${serviceName}</a>`,
  html`<nav aria-label="Site">
    ${entries.map(
      ({ href, title }) =>
        html`<a class="site-link" href=${href} aria-current=${href === current ? 'page' : undefined}>${title}</a>`,
    )}
  </nav>`,
]

/** The frame of every public page, with the gateway's name and the navigation. */
export const SiteShell = ({ serviceName, current, children }: SiteShellProps) =>
  html`<div class="site">
    <header class="site-top">
      <a class="skip" href="#main">Skip to the content</a>
      <div><${SiteLinks} serviceName=${serviceName} current=${current} /></div>
    </header>
    <main class="site-main" id="main" tabindex="-1">${children}</main>
    <footer class="site-foot"><div>
      <span>Paid per call in USDC, by x402. Payments are final.</span>
      <a class="site-link" href="/llms.txt">For agents</a><a class="site-link" href="/openapi.json">OpenAPI</a><a class="site-link" href="/docs/api">API reference</a>
    </div></footer>
  </div>`
