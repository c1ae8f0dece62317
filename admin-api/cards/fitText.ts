import type { CardFont } from './cardFont.ts'

export interface FitOptions {
  readonly font: Pick<CardFont, 'widthOf'>
  readonly width: number
  /** From the one that is wanted to the one that is left; the last one cuts what is too long. */
  readonly sizes: readonly { readonly size: number; readonly lines: number }[]
}

export interface FittedText {
  readonly size: number
  readonly lines: readonly string[]
}

/** Breaks a text into lines of a width: between words and behind slashes, within a word that is longer than a line, and with … at an end. */
export function fitText(text: string, { font, width, sizes }: FitOptions): FittedText {
  for (const [i, { size, lines: most }] of sizes.entries()) {
    const isWithin = (line: string) => font.widthOf(line, size) <= width
    const lines = linesOf(text, isWithin, most + 1)
    if (lines.length <= most) return { size, lines: balanced(text, lines, font, size, width) }
    if (i === sizes.length - 1)
      return { size, lines: [...lines.slice(0, most - 1), cut(lines[most - 1]!, isWithin)] }
  }
  return { size: 0, lines: [] }
}

/** No line of one word below a full one: the same number of lines, of the least width that has room for them. */
function balanced(
  text: string,
  lines: readonly string[],
  font: FitOptions['font'],
  size: number,
  width: number,
): readonly string[] {
  let best = lines
  for (let narrow = width - size; narrow > width / 2 && lines.length > 1; narrow -= size) {
    const tried = linesOf(text, (line) => font.widthOf(line, size) <= narrow, lines.length + 1)
    if (tried.length > lines.length || cutsIn(text, tried) > cutsIn(text, lines)) break
    best = tried
  }
  return best
}

/** How many lines end within a word. */
function cutsIn(text: string, lines: readonly string[]): number {
  let at = 0
  let cuts = 0
  for (const line of lines) {
    while (text[at] === ' ') at++
    at += line.length
    if (at < text.length && text[at] !== ' ' && text[at - 1] !== '/') cuts++
  }
  return cuts
}

const letters = new Intl.Segmenter('en', { granularity: 'grapheme' })

/** No more lines than `most`, so that a text of any length is looked at as far as it is shown. */
function linesOf(text: string, isWithin: (line: string) => boolean, most: number): string[] {
  const lines: string[] = []
  let line = ''
  const end = () => {
    if (line !== '') lines.push(line)
    line = ''
  }
  for (const word of text.split(' ')) {
    if (lines.length >= most) break
    if (isWithin(`${line} ${word}`.trim())) {
      line = `${line} ${word}`.trim()
      continue
    }
    end()
    // An address ends a line behind a slash where it can.
    for (const part of word.split(/(?<=\/)/)) {
      if (line !== '' && !isWithin(line + part)) end()
      for (const { segment } of letters.segment(part)) {
        if (lines.length >= most) break
        if (line !== '' && !isWithin(line + segment)) end()
        line += segment
      }
    }
  }
  end()
  return lines.slice(0, most)
}

function cut(line: string, isWithin: (line: string) => boolean): string {
  const kept = Array.from(letters.segment(line), ({ segment }) => segment)
  while (kept.length > 0 && !isWithin(`${kept.join('').trimEnd()}…`)) kept.pop()
  return `${kept.join('').trimEnd()}…`
}
