import { dirname, join } from 'node:path/posix'
import { anchorOf } from './markdown.ts'

/** A document as Eleventy passes it to a layout. */
export interface Document {
  /** Path of the document's page on the site, such as `/tutorials/sell-your-api.html`. */
  readonly url: string
  /** The document with its heading, without front matter. */
  readonly rawInput: string
  readonly data: { readonly title?: string | undefined; readonly order?: number | undefined }
}

export interface SitePage {
  readonly url: string
  readonly title: string
}

/** A folder of `docs/`. Its `README.md` has its name and is its first page. */
export interface Section extends SitePage {
  /** The first paragraph of the section's `README.md`. */
  readonly about: string
  readonly pages: readonly SitePage[]
  /** The second-level headings of the section's `README.md`. */
  readonly headings: readonly SitePage[]
}

/** The file of a page. Eleventy's path of a folder's first page ends with `/`. */
export const fileOf = (url: string): string => (url.endsWith('/') ? `${url}index.html` : url)

/**
 * The sections with their pages. Both are sorted by `order` in the front matter, then by title. The home page is in no section.
 */
export function sectionsOf(documents: readonly Document[]): readonly Section[] {
  const folders = Map.groupBy(documents, ({ url }) => dirname(fileOf(url)))
  return [...folders]
    .flatMap(([folder, inFolder]) => {
      const first = inFolder.find(({ url }) => url === join(folder, '/'))
      if (first === undefined) return []
      const pages = inFolder.filter((document) => document !== first).map(toEntry)
      return pages.length === 0
        ? []
        : [
            {
              ...toEntry(first),
              about: leadOf(first.rawInput),
              pages: pages.sort(byOrder),
              headings: headingsOf(first),
            },
          ]
    })
    .sort(byOrder)
}

const headingsOf = ({ url, rawInput }: Document): SitePage[] =>
  [...rawInput.matchAll(/^## (.+)$/gm)].map(([, text = '']) => ({
    url: `${fileOf(url)}#${anchorOf(text)}`,
    title: plain(text),
  }))

const toEntry = (document: Document) => ({
  url: fileOf(document.url),
  title: titleOf(document),
  order: document.data.order ?? Number.POSITIVE_INFINITY,
})

interface Ordered {
  readonly order: number
  readonly title: string
}

const byOrder = (a: Ordered, b: Ordered): number =>
  a.order === b.order ? a.title.localeCompare(b.title) : a.order - b.order

/** The title in the front matter, which the navigation shows. Without it, the heading. */
export const titleOf = ({ data, rawInput }: Pick<Document, 'data' | 'rawInput'>): string =>
  data.title ?? plain(/^# (.+)$/m.exec(rawInput)?.[1] ?? 'Untitled')

/** The first paragraph below the heading, as plain text. */
export const leadOf = (markdown: string): string =>
  plain(/^# .+\n+((?:[^\n]+\n)+)/m.exec(markdown)?.[1] ?? '')

const plain = (markdown: string): string =>
  markdown
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[`*]/g, '')
    .replace(/\s+/g, ' ')
    .trim()
