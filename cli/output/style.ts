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

/** Colours for a terminal; none elsewhere, with a non-empty `NO_COLOR` (no-color.org), or on a dumb terminal. */
export function stylesFor(isTerminal: boolean, env: Readonly<Record<string, string | undefined>>): Styles {
  const isPlain = !isTerminal || (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb'
  return isPlain ? uncoloured : coloured
}
