import { html } from '../html.ts'
import { Button } from './button.ts'

export interface PaginationProps {
  readonly total: number
  readonly limit: number
  readonly offset: number
  /** The address of the page that starts there. */
  readonly hrefOf: (offset: number) => string
}

/** Which part of a list this is, and the way to the next. */
export function Pagination({ total, limit, offset, hrefOf }: PaginationProps) {
  const end = Math.min(offset + limit, total)
  if (total <= limit && offset === 0) return null
  return html`<nav class="pagination" aria-label="Pages">
    ${offset > 0 ? html`<${Button} size="small" rel="prev" href=${hrefOf(Math.max(0, offset - limit))}>Previous<//>` : html`<span></span>`}
    <span>${offset < total ? `${offset + 1} – ${end} of ${total}` : `${total} in all`}</span>
    ${end < total ? html`<${Button} size="small" rel="next" href=${hrefOf(offset + limit)}>Next<//>` : html`<span></span>`}
  </nav>`
}
