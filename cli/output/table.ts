import { visibleText } from '../../core/text/visibleText.ts'
import type { Styles } from './style.ts'

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' })

/** Characters that take two columns: East Asian wide and full-width forms, and emoji. */
const wide =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1aff0}-\u{1b2fb}\u{1f200}-\u{1f265}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\ufe0f/u
const zeroWidth = /^[\p{Mn}\p{Me}\p{Cf}]+$/u

/** The number of terminal columns that a text takes. It is an estimate, because only the terminal knows. */
export function displayWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length
  let width = 0
  for (const { segment } of graphemes.segment(text)) width += widthOf(segment)
  return width
}

/** Cuts a text to a number of columns and appends `…`. Never splits a character. */
export function truncate(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text
  if (columns < 1) return ''
  let cut = ''
  let width = 1
  for (const { segment } of graphemes.segment(text)) {
    width += widthOf(segment)
    if (width > columns) break
    cut += segment
  }
  return `${cut}…`
}

/**
 * Wraps a line to a number of columns.
 *
 * @param at with `spaces`, lines break between words, the spaces there are dropped, and a word that is longer
 * than a line is broken. With `anywhere`, nothing is dropped
 */
export function wrap(text: string, columns: number, at: 'spaces' | 'anywhere' = 'spaces'): string[] {
  if (displayWidth(text) <= columns) return [text]
  const lines: string[] = []
  let line = ''
  let width = 0
  for (const { segment } of graphemes.segment(text)) {
    const more = widthOf(segment)
    if (width + more > columns && line !== '') {
      const space = at === 'anywhere' ? -1 : segment === ' ' ? line.length : line.lastIndexOf(' ')
      const end = space > 0 ? space : line.length
      lines.push(line.slice(0, end))
      line = at === 'anywhere' ? '' : line.slice(end).trimStart()
      width = displayWidth(line)
      if (at === 'spaces' && segment === ' ' && line === '') continue
    }
    line += segment
    width += more
  }
  return line === '' ? lines : [...lines, line]
}

function widthOf(grapheme: string): number {
  if (zeroWidth.test(grapheme)) return 0
  return wide.test(grapheme) || grapheme.includes('\ufe0f') ? 2 : 1
}

export interface Column<T> {
  readonly title: string
  /** The cell's text, unescaped. The table escapes it. */
  readonly value: (row: T) => string | number | bigint | boolean | null | undefined
  readonly align?: 'left' | 'right'
  /** True for a text that must not be cut, such as an id. The rest of the text continues on the next line instead. */
  readonly isWhole?: boolean
}

const GAP = 2
/** Minimum width of a column. If the table does not fit at this width, each row is printed as a block of lines. */
const MIN_WIDTH = 8

/** Lays out rows below their titles, within a number of columns. */
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
  // The longest word of a column that is never cut must fit on one line.
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

/** Narrows the widest column until the line fits. Undefined if it does not fit at the minimum widths. */
function fit(natural: readonly number[], atLeast: readonly number[], width: number): number[] | undefined {
  const widths = [...natural]
  const least = natural.map((n, i) => Math.min(n, Math.max(MIN_WIDTH, atLeast[i]!)))
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
      const room = Math.max(MIN_WIDTH, width - displayWidth(column.title) - 2)
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
