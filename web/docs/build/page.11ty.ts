import { dirname, relative } from 'node:path/posix'
import { renderToString } from 'preact-render-to-string'
import { Icon, Mark } from '../../components/button.ts'
import { html } from '../../html.ts'
import { type Document, fileOf, leadOf, type Section, sectionsOf, titleOf } from './sections.ts'

/** The data that Eleventy passes to a layout: the front matter, the rendered text and every document. */
interface LayoutData {
  readonly title: string | undefined
  /** The text as HTML. It is trusted, because it comes from this repository. */
  readonly content: string
  readonly page: { readonly url: string; readonly rawInput: string }
  readonly collections: { readonly all: readonly Document[] }
}

/** A gateway replaces the markup between these two comments with its own name and navigation. */
const serviceBegin = '<!-- service -->'
const serviceEnd = '<!-- /service -->'

/** The whole page of a document. Its addresses are relative, so that the site works in any folder and from a disk. */
export function render({ title: ownTitle, content, page, collections }: LayoutData): string {
  const { rawInput } = page
  const url = fileOf(page.url)
  const to = (target: string) => relative(dirname(url), target)
  const title = titleOf({ data: { title: ownTitle }, rawInput })
  const isHome = url === '/index.html'
  const isSearch = url === '/search.html'
  const sections = sectionsOf(collections.all)
  const section = sections.find(({ pages }) => pages.some((one) => one.url === url))
  const next = section?.pages[section.pages.findIndex((one) => one.url === url) + 1]

  const head = html`<head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>${isHome ? title : `${title} · Tollgate`}</title>
    <meta name="description" content=${leadOf(rawInput)} />
    <link rel="icon" href=${to('/mark.svg')} type="image/svg+xml" />
    <link rel="stylesheet" href=${to('/docs.css')} />
    ${['docs.js', ...(isSearch ? ['records.js', 'search.js'] : [])].map((script) => html`<script defer src=${to(`/${script}`)}></script>`)}
  </head>`
  const brand = html`<a class="brand" href=${to('/index.html')}><${Mark} />Tollgate</a>`
  const search = html`<form class="search" role="search" action=${to('/search.html')}>
    <label class="visually-hidden" for="page-search">Search the documentation</label>
    <${Icon} name="search" />
    <input type="search" id="page-search" name="q" placeholder="Search" autocomplete="off" />
  </form>`
  const nav = html`<nav aria-label="Documentation">
    <details class="all-pages">
      <summary>All pages</summary>
      ${sections.map((one) => {
        const isOpen = one === section || one.url === url
        return html`<section>
          <p><a class="site-link" href=${to(one.url)} aria-current=${one.url === url ? 'page' : undefined}>${one.title}</a></p>
          ${
            isOpen &&
            html`<ul>${one.pages.map(
              (each) =>
                html`<li><a class="site-link" href=${to(each.url)} aria-current=${each.url === url ? 'page' : undefined}>${each.title}</a></li>`,
            )}</ul>`
          }
        </section>`
      })}
    </details>
  </nav>`
  const main = html`<main class="document-main" id="page-main" tabindex="-1">
    <article class="document" dangerouslySetInnerHTML=${{ __html: content }}></article>
    ${isHome && html`<${SectionCards} sections=${sections} to=${to} />`}
    ${isSearch && html`<${SearchResults} />`}
    ${next && html`<p class="next">Next: <a href=${to(next.url)}>${next.title}</a></p>`}
  </main>`
  const top = `<a class="skip" href="#page-main">Skip to the content</a><div>${serviceBegin}${renderToString(brand)}${serviceEnd}${renderToString(search)}</div>`
  const body = `<div class="site"><header class="site-top">${top}</header><div class="frame">${renderToString(nav)}${renderToString(main)}</div></div>`
  return `<!doctype html>\n<html lang="en">${renderToString(head)}<body>${body}</body></html>\n`
}

/** The elements that `search.ts` fills. */
const SearchResults = () =>
  html`<div>
    <noscript><p>The search needs JavaScript. The navigation has every page.</p></noscript>
    <p class="soft" id="page-count" role="status"></p>
    <ol class="results" id="page-results"></ol>
  </div>`

/** Maximum pages that the card of a section lists. If there are more, it lists the headings of the section's own page. */
const MAX_CARD_PAGES = 12

const SectionCards = ({
  sections,
  to,
}: {
  readonly sections: readonly Section[]
  readonly to: (target: string) => string
}) =>
  html`<div class="cards">${sections.map(
    ({ url, title, about, pages, headings }) => html`<section class="card stack" aria-label=${title}>
      <h2><a href=${to(url)}>${title}</a></h2>
      <p class="soft">${about}</p>
      <ul>${(pages.length <= MAX_CARD_PAGES ? pages : headings).map((one) => html`<li><a href=${to(one.url)}>${one.title}</a></li>`)}</ul>
    </section>`,
  )}</div>`
