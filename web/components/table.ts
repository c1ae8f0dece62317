import { type Children, html } from '../html.ts'
import { Button } from './button.ts'

export interface Column<Row> {
  readonly key: string
  readonly title: string
  /** True if only screen readers get the title, as above a column of buttons. */
  readonly isTitleHidden?: boolean
  /** `end` is for numbers. */
  readonly align?: 'start' | 'end'
  readonly isSortable?: boolean
  readonly cell: (row: Row) => Children
}

export interface TableProps<Row> {
  /** What the table lists, for screen readers. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf?: (row: Row) => string
  /** Shown when there are no rows. */
  readonly empty?: Children
  readonly sort?: { readonly key: string; readonly direction: 'ascending' | 'descending' }
  /** Sorts in the browser. */
  readonly onSort?: (key: string) => void
  /** Sorts by loading another address. */
  readonly sortHref?: (key: string) => string
}

/** From this number of columns on, a table does not fit a small tablet. */
const MANY_COLUMNS = 6

/**
 * Rows of one kind. On narrow screens, each row becomes a list of titled cells. A table that is still too wide scrolls sideways
 * in its own frame. Roles are explicit, because browsers drop the implicit ones if cells are not displayed as a table.
 */
export function Table<Row>(props: TableProps<Row>) {
  const { caption, columns, rows, keyOf, empty, sort, onSort, sortHref } = props
  if (rows.length === 0 && empty !== undefined) return html`${empty}`
  const heading = ({ key, title, isTitleHidden, isSortable }: Column<Row>) => {
    if (isTitleHidden) return html`<span class="visually-hidden">${title}</span>`
    if (!isSortable) return title
    if (sortHref) return html`<a href=${sortHref(key)}>${title}</a>`
    return html`<button type="button" onClick=${() => onSort?.(key)}>${title}</button>`
  }
  return html`<div class=${`table-frame${columns.length >= MANY_COLUMNS ? ' many' : ''}`} role="region" aria-label=${caption} tabindex="0">
    <table class="table" role="table">
      <caption class="visually-hidden">${caption}</caption>
      <thead role="rowgroup"><tr role="row">
        ${columns.map(
          (column) => html`<th
            scope="col"
            role="columnheader"
            class=${column.align === 'end' ? 'end' : undefined}
            aria-sort=${sort?.key === column.key ? sort.direction : undefined}
          >${heading(column)}</th>`,
        )}
      </tr></thead>
      <tbody role="rowgroup">
        ${rows.map(
          (row) => html`<tr key=${keyOf?.(row)} role="row">
            ${columns.map(
              ({ title, isTitleHidden, align, cell }) =>
                html`<td role="cell" data-title=${isTitleHidden ? undefined : title} class=${align === 'end' ? 'end' : undefined}>${cell(row)}</td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}

export interface PaginationProps {
  readonly total: number
  readonly limit: number
  readonly offset: number
  /** The address of the page that starts at this offset. */
  readonly hrefOf: (offset: number) => string
}

/** Shows which part of a list is visible, with links to the previous and next part. */
export function Pagination({ total, limit, offset, hrefOf }: PaginationProps) {
  const end = Math.min(offset + limit, total)
  if (total <= limit && offset === 0) return null
  return html`<nav class="pagination" aria-label="Pages">
    ${offset > 0 ? html`<${Button} size="small" rel="prev" href=${hrefOf(Math.max(0, offset - limit))}>Previous<//>` : html`<span></span>`}
    <span>${offset < total ? `${offset + 1} – ${end} of ${total}` : `${total} in total`}</span>
    ${end < total ? html`<${Button} size="small" rel="next" href=${hrefOf(offset + limit)}>Next<//>` : html`<span></span>`}
  </nav>`
}
