import { displayWidth, truncate } from './displayWidth.ts'
import { safeLine } from './sanitise.ts'
import type { Styles } from './style.ts'

export interface Column<T> {
  readonly title: string
  /** The cell's text; it is made safe afterwards. */
  readonly value: (row: T) => string | number | bigint | boolean | null | undefined
  readonly align?: 'left' | 'right'
}

const gap = 2
/** A column is not cut below this. When the table still does not fit, each row becomes a block of lines. */
const leastWidth = 8

/** Lays rows out under titles, within a number of columns. */
export function formatTable<T>(
  rows: readonly T[],
  columns: readonly Column<T>[],
  width: number,
  styles: Styles,
): string[] {
  const cells = rows.map((row) => columns.map((column) => safeLine(shown(column.value(row)))))
  const natural = columns.map(({ title }, i) =>
    Math.max(displayWidth(title), ...cells.map((row) => displayWidth(row[i]!))),
  )
  const widths = fit(
    natural,
    columns.map(({ title }) => displayWidth(title)),
    width,
  )
  if (widths === undefined) return blocks(cells, columns, width, styles)
  const line = (texts: readonly string[]) =>
    texts
      .map((text, i) => pad(truncate(text, widths[i]!), widths[i]!, columns[i]!.align))
      .join(' '.repeat(gap))
      .trimEnd()
  return [styles.bold(line(columns.map(({ title }) => title))), ...cells.map(line)]
}

/** Takes from the widest column until the line fits; undefined when it can not. */
function fit(natural: readonly number[], titles: readonly number[], width: number): number[] | undefined {
  const widths = [...natural]
  const least = natural.map((n, i) => Math.min(n, Math.max(leastWidth, titles[i]!)))
  const total = () => widths.reduce((sum, w) => sum + w, 0) + gap * (widths.length - 1)
  while (total() > width) {
    let widest = -1
    for (const [i, w] of widths.entries()) {
      if (w > least[i]! && (widest < 0 || w > widths[widest]!)) widest = i
    }
    if (widest < 0) return undefined
    widths[widest]!--
  }
  return widths
}

function blocks<T>(
  cells: readonly string[][],
  columns: readonly Column<T>[],
  width: number,
  styles: Styles,
): string[] {
  return cells.flatMap((row, i) => {
    const lines = row.map(
      (cell, j) =>
        `${styles.bold(columns[j]!.title)}: ${truncate(cell, Math.max(leastWidth, width - displayWidth(columns[j]!.title) - 2))}`,
    )
    return i === 0 ? lines : ['', ...lines]
  })
}

function pad(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const space = ' '.repeat(Math.max(0, width - displayWidth(text)))
  return align === 'right' ? space + text : text + space
}

const shown = (value: unknown): string => (value === null || value === undefined ? '' : String(value))
