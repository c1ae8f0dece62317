import { createHmac, randomBytes } from 'node:crypto'
import { renderToString } from 'preact-render-to-string'
import { type Children, html } from '../html.ts'
import { assetPath, webManifest } from './assets.ts'

export interface Page {
  /** Name of the page's folder in `web/`. Its `entry.ts` and `page.css` are loaded if they exist. */
  readonly name: string
  readonly title: string
  readonly description: string
  readonly body: Children
  /** Data that the page's scripts read with `pageData`. Every reader of the page can see it. */
  readonly data?: unknown
  /** Canonical URL for search engines. */
  readonly canonicalUrl?: string
  /** True to exclude the page from search engines. */
  readonly isUnlisted?: boolean
  /** URL of the image for links to the page on other sites, 1200 × 630 pixels. */
  readonly cardUrl?: string
  /** True to allow images from any https URL, for pages that show sellers' images. Default: only the gateway's own images. */
  readonly hasForeignImages?: boolean
  /** Origins to which the page's scripts may connect, besides this gateway. */
  readonly connectsTo?: readonly string[]
  /**
   * Whether Trusted Types prevent that text becomes markup. False for pages on which wallets inject scripts that write markup.
   * Default: true.
   */
  readonly hasTrustedTypes?: boolean
}

export interface RenderedPage {
  readonly html: string
  /** The page's Content-Security-Policy. It matches only this text, also when the page is cached. */
  readonly policy: string
}

/** Random key of this process, so that a nonce cannot be predicted. */
const nonceKey = randomBytes(32)

/**
 * Renders a document and its policy. The policy allows own scripts by nonce and own styles, but no inline code and no frames.
 * The nonce is derived from the page's text, so a cached page and its ETag stay the same as long as the text does.
 */
export function renderPage(page: Page): RenderedPage {
  const { scripts, styles, icon } = webManifest()
  const body = renderToString(html`${page.body}`)
  const data = page.data === undefined ? undefined : JSON.stringify(page.data).replaceAll('<', '\\u003c')
  const { name, title, description, canonicalUrl, cardUrl } = page
  const nonce = createHmac('sha256', nonceKey)
    .update(JSON.stringify([name, title, description, data, body]))
    .digest('base64url')
  const [entry, ...imported] = scripts[name] ?? []
  const head = html`<head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>${title}</title>
    <meta name="description" content=${description} />
    ${page.isUnlisted && html`<meta name="robots" content="noindex" />`}
    ${canonicalUrl && html`<link rel="canonical" href=${canonicalUrl} />`}
    <meta property="og:type" content="website" />
    <meta property="og:title" content=${title} />
    <meta property="og:description" content=${description} />
    ${canonicalUrl && html`<meta property="og:url" content=${canonicalUrl} />`}
    ${cardUrl && cardTags(cardUrl, title)}
    <link rel="icon" href=${assetPath(icon)} type="image/svg+xml" />
    ${['base', name].map((one) => styles[one] && html`<link rel="stylesheet" href=${assetPath(styles[one])} />`)}
    ${imported.map((one) => html`<link rel="modulepreload" href=${assetPath(one)} nonce=${nonce} />`)}
    ${entry && html`<script type="module" src=${assetPath(entry)} nonce=${nonce}></script>`}
  </head>`
  const dataElement =
    data &&
    renderToString(
      html`<script type="application/json" id="page-data" dangerouslySetInnerHTML=${{ __html: data }}></script>`,
    )
  return {
    html: `<!doctype html>\n<html lang="en">${renderToString(head)}<body>${body}${dataElement ?? ''}</body></html>\n`,
    policy: policyOf(page, nonce),
  }
}

/** Tags for Open Graph, and for X, which has names of its own for what Open Graph lacks. */
const cardTags = (url: string, title: string) => [
  html`<meta property="og:image" content=${url} />`,
  html`<meta property="og:image:width" content="1200" />`,
  html`<meta property="og:image:height" content="630" />`,
  html`<meta property="og:image:alt" content=${title} />`,
  html`<meta name="twitter:card" content="summary_large_image" />`,
  html`<meta name="twitter:image" content=${url} />`,
]

/** The policy in CSP level 3, with Trusted Types for browsers that support them. */
const policyOf = (page: Page, nonce: string): string =>
  [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    "style-src 'self'",
    ["connect-src 'self'", ...(page.connectsTo ?? [])].join(' '),
    `img-src 'self' data:${page.hasForeignImages ? ' https:' : ''}`,
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    ...(page.hasTrustedTypes === false ? [] : ["require-trusted-types-for 'script'", "trusted-types 'none'"]),
  ].join('; ')
