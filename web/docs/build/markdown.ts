import { dirname, join } from 'node:path'
import { Marked, type Tokens } from 'marked'
import { renderToString } from 'preact-render-to-string'
import { html } from '../../html.ts'

/**
 * Renders a document of `docs/` as HTML. Headings get GitHub's anchors. A link to another document leads to its page. A link to
 * a file outside of `docs/` becomes plain text, because the site has no page for it. HTML comments are left out.
 *
 * @param path of the document, from the repository's root
 */
export function renderMarkdown(markdown: string, path: string): string {
  const taken = new Map<string, number>()
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        const anchor = anchorOf(text, taken)
        const words = this.parser.parseInline(tokens)
        return depth === 1
          ? `<h1 id="${anchor}">${words}</h1>\n`
          : `<h${depth} id="${anchor}"><a class="anchor" href="#${anchor}">${words}</a></h${depth}>\n`
      },
      code: ({ text, lang }: Tokens.Code) =>
        renderToString(
          html`<div class="code" data-language=${lang || undefined}><pre><code>${text}</code></pre></div>`,
        ),
      link({ href, tokens }) {
        const words = this.parser.parseInline(tokens)
        const address = addressOf(href, path)
        return address === undefined ? words : `<a href="${address}">${words}</a>`
      },
      image: ({ href, text }) =>
        `<img src="${encodeURI(href)}" alt="${text.replaceAll('"', '&quot;')}" loading="lazy" />`,
      html: () => '',
      table(token) {
        const cells = (row: Tokens.TableCell[], tag: string) =>
          row.map((cell) => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join('')
        const rows = token.rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('')
        return `<div class="table" tabindex="0" role="region" aria-label="Table"><table><thead><tr>${cells(token.header, 'th')}</tr></thead><tbody>${rows}</tbody></table></div>`
      },
    },
  })
  return marked.parse(markdown, { async: false })
}

/** The path of a document's page. A folder's `README.md` becomes its `index.html`. */
export const pageOf = (document: string): string =>
  document.replace(/(^|\/)README\.md$/, '$1index.md').replace(/\.md$/, '.html')

function addressOf(href: string, path: string): string | undefined {
  if (/^(https?:|mailto:|#)/.test(href)) return encodeURI(href)
  const [target = '', anchor] = href.split('#')
  const file = join(dirname(path), target)
  if (!file.startsWith('docs/') || !/\.(md|png)$/.test(file)) return undefined
  return encodeURI(pageOf(target)) + (anchor === undefined ? '' : `#${anchor}`)
}

/** GitHub's anchor of a heading. For the second heading with the same words, `-1` is added. */
export function anchorOf(heading: string, taken = new Map<string, number>()): string {
  const plain = heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}_ -]/gu, '')
    .replaceAll(' ', '-')
  const before = taken.get(plain) ?? 0
  taken.set(plain, before + 1)
  return before === 0 ? plain : `${plain}-${before}`
}
