import { existsSync, readFileSync } from 'node:fs'
import { Marked, type Tokens } from 'marked'
import { renderToString } from 'preact-render-to-string'
import { Code } from '../../web/components/codeBlock.ts'
import { html } from '../../web/html.ts'

export interface GuideGroup {
  readonly title: string
  readonly guides: readonly { readonly name: string; readonly title: string }[]
}

/** Every guide of `docs/`, by its reader. `docs.test.ts` keeps the list whole. */
export const guideGroups: readonly GuideGroup[] = [
  {
    title: 'Buyers',
    guides: [
      { name: 'buyers', title: 'Find and buy' },
      { name: 'mcp', title: 'Agents, by MCP' },
      { name: 'protocol', title: 'Protocol' },
      { name: 'errors', title: 'Errors' },
    ],
  },
  {
    title: 'Sellers',
    guides: [
      { name: 'sellers', title: 'Sell an API' },
      { name: 'dashboard', title: 'The dashboard' },
      { name: 'payments', title: 'Payment sessions' },
      { name: 'checkout', title: 'Checkout' },
      { name: 'webhooks', title: 'Webhooks' },
      { name: 'api', title: 'API reference' },
    ],
  },
  {
    title: 'Operators',
    guides: [
      { name: 'operations', title: 'Operations' },
      { name: 'configuration', title: 'Configuration' },
      { name: 'security', title: 'Security' },
      { name: 'scaling', title: 'Scaling' },
      { name: 'plugins', title: 'Plugins' },
      { name: 'performance', title: 'Performance' },
      { name: 'performance-notes', title: 'Notes on performance' },
    ],
  },
  {
    title: 'Owners of agents',
    guides: [
      { name: 'vault', title: 'The vault' },
      { name: 'vault-approvals', title: 'Approvals' },
      { name: 'vault-mcp', title: 'MCP clients' },
      { name: 'vault-remote', title: 'Agents elsewhere' },
      { name: 'vault-plugins', title: 'Configuration and plugins' },
      { name: 'vault-errors', title: 'Errors of the vault' },
      { name: 'vault-threat-model', title: 'Threat model' },
    ],
  },
]

const titles = new Map(guideGroups.flatMap(({ guides }) => guides.map(({ name, title }) => [name, title])))

/** The package's `docs/`: two folders up in the sources, three in what is built. */
export const docsFolder = [
  new URL('../../docs/', import.meta.url),
  new URL('../../../docs/', import.meta.url),
].find((folder) => existsSync(new URL('buyers.md', folder)))

export interface Guide {
  readonly title: string
  /** Its text as HTML: headings have anchors, links lead to pages of this service. */
  readonly html: string
}

/** @returns undefined for a name that no guide has */
export function readGuide(name: string): Guide | undefined {
  const title = titles.get(name)
  if (title === undefined || docsFolder === undefined) return
  return { title, html: toHtml(readFileSync(new URL(`${name}.md`, docsFolder), 'utf8')) }
}

/** The text is the package's own. HTML in it is left out: it is comments for the tool that writes the generated parts. */
function toHtml(markdown: string): string {
  const taken = new Map<string, number>()
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        const anchor = anchorOf(text, taken)
        return `<h${depth} id="${anchor}">${this.parser.parseInline(tokens)}</h${depth}>\n`
      },
      code: ({ text, lang }: Tokens.Code) =>
        renderToString(html`<${Code} title=${lang || 'the lines'} code=${text} />`),
      link({ href, tokens }) {
        const words = this.parser.parseInline(tokens)
        const address = addressOf(href)
        return address === undefined ? words : `<a href="${address}">${words}</a>`
      },
      image: ({ href, text }) =>
        `<img src="/docs/${encodeURI(href)}" alt="${text.replaceAll('"', '&quot;')}" loading="lazy" />`,
      html: () => '',
      table(token) {
        const cells = (row: Tokens.TableCell[], tag: string) =>
          row.map((cell) => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join('')
        const rows = token.rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('')
        return `<div class="guide-table" tabindex="0" role="region" aria-label="Table"><table><thead><tr>${cells(token.header, 'th')}</tr></thead><tbody>${rows}</tbody></table></div>`
      },
    },
  })
  return marked.parse(markdown, { async: false })
}

/** Another guide's page, an anchor or a whole address; undefined for files of the sources, which are served nowhere. */
function addressOf(href: string): string | undefined {
  if (/^(https?:|#)/.test(href)) return encodeURI(href)
  const [, name = '', anchor = ''] = /^([a-z-]+)\.md(#.*)?$/.exec(href) ?? []
  return titles.has(name) ? `/docs/${name}${anchor}` : undefined
}

/** As GitHub makes it, because the guides' links are checked against that. */
function anchorOf(heading: string, taken: Map<string, number>): string {
  const plain = heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}_ -]/gu, '')
    .replaceAll(' ', '-')
  const before = taken.get(plain) ?? 0
  taken.set(plain, before + 1)
  return before === 0 ? plain : `${plain}-${before}`
}
