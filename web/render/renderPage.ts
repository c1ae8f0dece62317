import { createHmac, randomBytes } from 'node:crypto'
import { renderToString } from 'preact-render-to-string'
import { type Children, html } from '../html.ts'
import { assetPath, webManifest } from './assets.ts'

export interface Page {
  /** Names the page's folder below `web/`: its `entry.ts` and `page.css` are loaded where there are such. */
  readonly name: string
  readonly title: string
  readonly description: string
  readonly body: Children
  /** What the page's scripts read by `pageData`. As public as the page. */
  readonly data?: unknown
  /** The address that search engines keep. */
  readonly canonicalUrl?: string
  /** Stays out of search engines. */
  readonly isUnlisted?: boolean
  /** Picture of the page where its address is shared, 1200 × 630; a whole address. */
  readonly cardUrl?: string
  /** Pictures of sellers' choice are loaded from https addresses. Default: only our own. */
  readonly hasForeignImages?: boolean
  /** Where the page's scripts may connect to beside this service: origins. */
  readonly connectsTo?: readonly string[]
  /**
   * Off for pages into which wallets put scripts that write markup. Default: text never becomes markup (Trusted Types).
   */
  readonly hasTrustedTypes?: boolean
}

export interface RenderedPage {
  readonly html: string
  /** Its Content-Security-Policy: goes with the text, also where an answer is kept. */
  readonly policy: string
}

/** Of this process: nobody else can foresee a nonce. */
const nonceKey = randomBytes(32)

/**
 * A whole document and the policy that it is sent with: own scripts by nonce, own styles, no inline code, no frame. The nonce
 * is made of the page's text, so that an answer that is kept, and its ETag, stay the same while the page does.
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

/** For the services of Open Graph, and for X, which reads of its own names what those do not say. */
const cardTags = (url: string, title: string) => [
  html`<meta property="og:image" content=${url} />`,
  html`<meta property="og:image:width" content="1200" />`,
  html`<meta property="og:image:height" content="630" />`,
  html`<meta property="og:image:alt" content=${title} />`,
  html`<meta name="twitter:card" content="summary_large_image" />`,
  html`<meta name="twitter:image" content=${url} />`,
]

/** CSP level 3; and Trusted Types, in browsers that know them. */
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
