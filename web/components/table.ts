import { type Children, html } from '../html.ts'

export interface Column<Row> {
  readonly key: string
  readonly title: string
  /** The title is read out only: of a column of buttons, which say themselves what they do. */
  readonly isTitleHidden?: boolean
  /** `end` for numbers. */
  readonly align?: 'start' | 'end'
  readonly isSortable?: boolean
  readonly cell: (row: Row) => Children
}

export interface TableProps<Row> {
  /** What is listed, for those who don't see where it stands. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf?: (row: Row) => string
  /** What is shown instead of no rows. */
  readonly empty?: Children
  readonly sort?: { readonly key: string; readonly direction: 'ascending' | 'descending' }
  /** Sorting in the browser … */
  readonly onSort?: (key: string) => void
  /** … or by another address. */
  readonly sortHref?: (key: string) => string
}

/** From as many on, a table needs more room than a small tablet has. */
const MANY_COLUMNS = 6

/**
 * Rows of one kind. Where its columns have no room, each row is a list of its cells with their titles; what is wider even so
 * scrolls sideways in its own frame. Roles are named because browsers forget those of cells that are no table's any more.
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
