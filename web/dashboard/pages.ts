import { useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { html } from '../html.ts'
import { type Action, Fault, useAction } from '../shell/load.ts'

/** Maximum number of rows per page of the API. */
const PER_PAGE = 100
/** Maximum number of pages in a CSV. The API with a key returns more rows. */
const MAX_PAGES = 100

/**
 * Reads the newest 10,000 rows of an API list as CSV, page by page, and has the browser save them.
 *
 * @param path path of the list with its filter
 * @param csrfToken token of the browser session, so that the table is never that of another store
 */
export async function saveCsv(path: string, name: string, csrfToken: string): Promise<void> {
  const pieces: string[] = []
  let next: string | undefined = `${path}${path.includes('?') ? '&' : '?'}limit=${PER_PAGE}`
  for (let i = 0; next !== undefined && i < MAX_PAGES; i++) {
    const response: Response = await fetch(next, {
      headers: { accept: 'text/csv', 'x-csrf-token': csrfToken },
      credentials: 'same-origin',
    })
    if (!response.ok) throw new Error('The table could not be loaded. Try again in a minute.')
    const text = await response.text()
    pieces.push(i === 0 ? text : text.slice(text.indexOf('\n') + 1))
    // The link (RFC 8288) contains the public URL. Only its path is used.
    const link: string | undefined = /<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1]
    next = link === undefined ? undefined : new URL(link).pathname + new URL(link).search
  }
  const url = URL.createObjectURL(new Blob(pieces, { type: 'text/csv' }))
  const anchor = Object.assign(document.createElement('a'), { href: url, download: name })
  anchor.click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

/** One page of a list, and the cursor of the next page, which is null on the last page. */
export interface PageOf<Row> {
  readonly rows: readonly Row[]
  readonly nextCursor: string | null
}

/** The part of a list that was loaded. */
export interface Pages<Row> {
  readonly rows: readonly Row[]
  readonly hasMore: boolean
  readonly more: () => void
  readonly action: Action
}

/** A list whose first page is loaded. Each press of {@link More} adds the next page. */
export function usePages<Row>(
  first: PageOf<Row>,
  load: (cursor: string) => Promise<PageOf<Row>>,
): Pages<Row> {
  const [rows, setRows] = useState(first.rows)
  const [cursor, setCursor] = useState(first.nextCursor)
  const action = useAction()
  const more = () =>
    void action.run(async () => {
      const page = await load(cursor ?? '')
      setRows((before) => [...before, ...page.rows])
      setCursor(page.nextCursor)
    })
  return { rows, hasMore: cursor !== null, more, action }
}

/** Shown below a list. Loads the next page while there is one. */
export const More = ({ of: { hasMore, more, action } }: { readonly of: Pages<unknown> }) =>
  html`<${Fault} of=${action} />
    ${hasMore && html`<div class="row"><${Button} isBusy=${action.isBusy} onClick=${more}>Show more<//></div>`}`
