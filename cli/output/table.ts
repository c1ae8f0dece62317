import { visibleText } from '../../core/text/visibleText.ts'
import { displayWidth, truncate, wrap } from './displayWidth.ts'
import type { Styles } from './style.ts'

export interface Column<T> {
  readonly title: string
  /** The cell's text; it is made safe afterwards. */
  readonly value: (row: T) => string | number | bigint | boolean | null | undefined
  readonly align?: 'left' | 'right'
  /** True for what must never be cut, such as an id: it goes on in the next line instead. */
  readonly isWhole?: boolean
}

const GAP = 2
/** A column is not cut below this. When the table still does not fit, each row becomes a block of lines. */
const LEAST_WIDTH = 8

/** Lays rows out under titles, within a number of columns. */
export function formatTable<T>(
  rows: readonly T[],
  columns: readonly Column<T>[],
  width: number,
  styles: Styles,
): string[] {
  const cells = rows.map((row) => columns.map((column) => visibleText(shown(column.value(row)))))
  const natural = columns.map(({ title }, i) =>
    Math.max(displayWidth(title), ...cells.map((row) => displayWidth(row[i]!))),
  )
  // What is whole keeps its words whole, too, where they fit.
  const least = columns.map(({ title, isWhole }, i) =>
    Math.max(displayWidth(title), ...(isWhole ? cells.map((row) => longestWord(row[i]!)) : [])),
  )
  const widths = fit(natural, least, width)
  if (widths === undefined) return blocks(cells, columns, width, styles)
  const line = (texts: readonly string[]) =>
    texts
      .map((text, i) => pad(text, widths[i]!, columns[i]!.align))
      .join(' '.repeat(GAP))
      .trimEnd()
  const lines = (row: readonly string[]) => {
    const broken = row.map((text, i) => linesOf(text, widths[i]!, columns[i]!))
    const height = Math.max(...broken.map(({ length }) => length))
    return Array.from({ length: height }, (_, n) => line(broken.map((cell) => cell[n] ?? '')))
  }
  return [styles.bold(line(columns.map(({ title }) => title))), ...cells.flatMap(lines)]
}

/** Takes from the widest column until the line fits; undefined when it can not. */
function fit(natural: readonly number[], atLeast: readonly number[], width: number): number[] | undefined {
  const widths = [...natural]
  const least = natural.map((n, i) => Math.min(n, Math.max(LEAST_WIDTH, atLeast[i]!)))
  const total = () => widths.reduce((sum, w) => sum + w, 0) + GAP * (widths.length - 1)
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
    const lines = row.flatMap((cell, j) => {
      const column = columns[j]!
      const room = Math.max(LEAST_WIDTH, width - displayWidth(column.title) - 2)
      const [first, ...others] = linesOf(cell, room, column)
      return [`${styles.bold(column.title)}: ${first}`, ...others.map((text) => `  ${text}`)]
    })
    return i === 0 ? lines : ['', ...lines]
  })
}

const linesOf = (
  text: string,
  width: number,
  { isWhole = false }: Pick<Column<never>, 'isWhole'>,
): string[] => (isWhole ? wrap(text, width) : [truncate(text, width)])

function pad(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const space = ' '.repeat(Math.max(0, width - displayWidth(text)))
  return align === 'right' ? space + text : text + space
}

const longestWord = (text: string): number => Math.max(...text.split(' ').map(displayWidth))

const shown = (value: unknown): string => (value === null || value === undefined ? '' : String(value))
