import type { BuiltPage } from './deadLinks.ts'

/** One heading of a page with the text below it. A search finds these records. */
export interface SearchRecord {
  /** The page, and the heading's anchor. */
  readonly address: string
  readonly page: string
  readonly heading: string
  readonly text: string
}

/** Every section of every page, as plain text. */
export const searchRecords = (pages: readonly BuiltPage[]): SearchRecord[] =>
  pages.flatMap(({ path, html }) => {
    const article = /<article[^>]*>([\s\S]*)<\/article>/.exec(html)?.[1] ?? ''
    const parts = [
      ...article.matchAll(/<h([1-4]) id="([^"]+)">([\s\S]*?)<\/h\1>([\s\S]*?)(?=<h[1-4] id=|$)/g),
    ]
    const page = textOf(parts[0]?.[3] ?? '')
    return parts.map(([, , anchor, heading = '', text = '']) => ({
      address: `${path}#${anchor}`,
      page,
      heading: textOf(heading),
      text: textOf(text),
    }))
  })

const entities: Readonly<Record<string, string>> = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#39;': "'",
}

const textOf = (html: string): string =>
  html
    .replace(/<[^>]+>/g, ' ')
    .replace(/&(?:amp|lt|gt|quot|#39);/g, (entity) => entities[entity]!)
    .replace(/\s+/g, ' ')
    .trim()
