const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' })

/** Characters that take two columns: East Asian wide and full-width forms, and pictures. */
const wide =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1aff0}-\u{1b2fb}\u{1f200}-\u{1f265}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\ufe0f/u
const zeroWidth = /^[\p{Mn}\p{Me}\p{Cf}]+$/u

/** How many columns of a terminal a text takes, as nearly as can be known without asking it. */
export function displayWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length
  let width = 0
  for (const { segment } of graphemes.segment(text)) width += widthOf(segment)
  return width
}

/** Cuts a text to a number of columns, with `…` in place of what is cut; never through a character. */
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
 * Breaks a line into lines of so many columns.
 *
 * @param at `spaces`: between words, whose spaces there are left out; a word that is longer than a line is broken all the same.
 *           `anywhere`: nothing is left out.
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
