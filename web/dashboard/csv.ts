/** As many rows as a page of the API has at most. */
const PER_PAGE = 100
/** Rows beyond these are for a program, with a key. */
const MOST_PAGES = 100

/**
 * Reads a list of the API as CSV, page by page, and has the browser save it. Of 10,000 rows and more the newest are saved.
 *
 * @param path of a list that answers CSV, with its filter
 * @param csrfToken of the session that is shown: never a table of another one
 */
export async function saveCsv(path: string, name: string, csrfToken: string): Promise<void> {
  const pieces: string[] = []
  let next: string | undefined = `${path}${path.includes('?') ? '&' : '?'}limit=${PER_PAGE}`
  for (let i = 0; next !== undefined && i < MOST_PAGES; i++) {
    const response: Response = await fetch(next, {
      headers: { accept: 'text/csv', 'x-csrf-token': csrfToken },
      credentials: 'same-origin',
    })
    if (!response.ok) throw new Error('The table could not be read. Try again in a minute.')
    const text = await response.text()
    pieces.push(i === 0 ? text : text.slice(text.indexOf('\n') + 1))
    // RFC 8288; its address is the public one, of which the path counts.
    const link: string | undefined = /<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1]
    next = link === undefined ? undefined : new URL(link).pathname + new URL(link).search
  }
  const url = URL.createObjectURL(new Blob(pieces, { type: 'text/csv' }))
  const anchor = Object.assign(document.createElement('a'), { href: url, download: name })
  anchor.click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}
