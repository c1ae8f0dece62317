/** The parts of `process.stdout` and `process.stderr` that the output uses. */
export interface Stream {
  write(text: string): unknown
  readonly isTTY?: boolean | undefined
  /** Width of the terminal. Node sets it only on a terminal. */
  readonly columns?: number | undefined
}

/** Number of columns for a pipe, and for a terminal that reports 0 columns, as in a container. */
const DEFAULT_COLUMNS = 80

/** The width in columns of a text for a person. */
export const columnsOf = ({ columns }: Pick<Stream, 'columns'>): number => columns || DEFAULT_COLUMNS
export type Style = (text: string) => string

export interface Styles {
  readonly bold: Style
  readonly dim: Style
  readonly red: Style
  readonly yellow: Style
  readonly green: Style
}

const plain: Style = (text) => text
const paint =
  (open: number, close: number): Style =>
  (text) =>
    text === '' ? text : `\u001b[${open}m${text}\u001b[${close}m`

const coloured: Styles = {
  bold: paint(1, 22),
  dim: paint(2, 22),
  red: paint(31, 39),
  yellow: paint(33, 39),
  green: paint(32, 39),
}
const uncoloured: Styles = { bold: plain, dim: plain, red: plain, yellow: plain, green: plain }

/** Colors on a terminal. There are none elsewhere, with a non-empty `NO_COLOR` (no-color.org), or on a dumb terminal. */
export function stylesFor(isTerminal: boolean, env: Readonly<Record<string, string | undefined>>): Styles {
  const isPlain = !isTerminal || (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb'
  return isPlain ? uncoloured : coloured
}
