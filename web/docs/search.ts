import MiniSearch from 'minisearch'
import type { SearchRecord } from './build/searchRecords.ts'

declare global {
  /** The search records from `records.js`, which the search page loads first. */
  var searchRecords: readonly SearchRecord[]
}

const MAX_RESULTS = 20
/** Number of characters of a section's text that a result shows. */
const EXCERPT_CHARS = 200

const index = new MiniSearch<SearchRecord>({
  idField: 'address',
  fields: ['page', 'heading', 'text'],
  // Single letters are left out, because every text has words such as "a".
  tokenize: (text) => text.split(/[^\p{L}\p{N}]+/u).filter((word) => word.length > 1),
  searchOptions: { boost: { page: 3, heading: 4 }, prefix: true, fuzzy: 0.15, combineWith: 'AND' },
})
index.addAll(searchRecords)
const records = new Map(searchRecords.map((record) => [record.address, record]))

const field = document.querySelector<HTMLInputElement>('#page-search')!
const list = document.querySelector<HTMLElement>('#page-results')!
const count = document.querySelector<HTMLElement>('#page-count')!

field.value = new URLSearchParams(location.search).get('q') ?? ''
field.addEventListener('input', show)
field.form!.addEventListener('submit', (event) => event.preventDefault())
show()
field.focus()

function show(): void {
  const query = field.value.trim()
  history.replaceState(null, '', query === '' ? location.pathname : `?q=${encodeURIComponent(query)}`)
  const found = index.search(query)
  const shown = found.slice(0, MAX_RESULTS).map(({ id, terms }) => itemOf(records.get(id)!, terms))
  list.replaceChildren(...shown)
  count.textContent =
    query === '' ? 'Type what you look for.' : found.length === 1 ? '1 result' : `${found.length} results`
}

function itemOf({ address, page, heading, text }: SearchRecord, terms: readonly string[]): HTMLElement {
  const item = document.createElement('li')
  const link = document.createElement('a')
  link.href = address
  link.textContent = page === heading ? page : `${page}: ${heading}`
  const excerpt = document.createElement('p')
  excerpt.className = 'soft'
  excerpt.append(...marked(excerptOf(text, terms), terms))
  item.append(link, excerpt)
  return item
}

/** The part of a text around the first word that was found. */
function excerptOf(text: string, terms: readonly string[]): string {
  const lower = text.toLowerCase()
  const firsts = terms.map((term) => lower.indexOf(term)).filter((at) => at >= 0)
  const begin = Math.max(0, Math.min(...firsts, text.length) - EXCERPT_CHARS / 3)
  const from = firsts.length === 0 || begin === 0 ? 0 : text.indexOf(' ', begin) + 1
  const excerpt = text.slice(from, from + EXCERPT_CHARS)
  return `${from > 0 ? '… ' : ''}${excerpt}${from + EXCERPT_CHARS < text.length ? ' …' : ''}`
}

/** The text, with a `mark` around each word that was found. */
function marked(text: string, terms: readonly string[]): Node[] {
  // A term needs no escaping, because it has only letters and digits.
  return text.split(new RegExp(`(${terms.join('|')})`, 'iu')).map((part, i) => {
    if (i % 2 === 0) return new Text(part)
    const mark = document.createElement('mark')
    mark.textContent = part
    return mark
  })
}
