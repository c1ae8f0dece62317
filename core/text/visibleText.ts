/**
 * Everything without a look of its own: controls, unassigned, other spaces; then what is ignored when drawn, blanks, and marks that
 * strike out or enclose the letter that they belong to.
 */
const hidden =
  /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]|[\p{Default_Ignorable_Code_Point}\u2800\p{Me}]|[\u0334-\u0338]|[\u20d2-\u20d3]|[\u20d8-\u20da]|[\u20e5-\u20e6]|[\u20ea-\u20eb]/gu
/** Marks are drawn over what stands before them: none begins a line, and more than three are a tower over other lines. */
const strayMarks = /(?<=^|\n)\p{M}+|(?<=\p{M}{3})\p{M}+/gu
/** Letters and digits that are written from right to left, by the ranges that Unicode keeps for them (UAX #9, table 4). */
const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/gu

const inBraces = (char: string): string => `\\u{${char.codePointAt(0)!.toString(16)}}`
/** As JSON and JavaScript write a character: a pair of them above U+FFFF. */
const inUnits = (char: string): string =>
  Array.from(
    { length: char.length },
    (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`,
  ).join('')

const each = (write: (char: string) => string) => (run: string) => Array.from(run, write).join('')

const written = (text: string, write: (char: string) => string): string =>
  text.replace(strayMarks, each(write)).replace(hidden, write)

/**
 * One line of somebody else's text in a form that has one look: what is invisible, turns the direction of writing or is
 * drawn over its neighbours is written as its number, `\u{202e}`.
 */
export const visibleText = (text: string): string => written(text, inBraces)

/** As {@link visibleText}, and fit to stand inside a sentence: nothing in it can pull the sentence's own words or digits. */
export const visibleInSentence = (text: string): string => visibleText(text).replace(rightToLeft, inBraces)

/**
 * A whole text, to stand by itself: its line breaks stay, everything else without a look is `\u202e`, so JSON stays the same
 * JSON.
 */
export const visibleLines = (text: string): string =>
  text
    .split('\n')
    .map((line) => written(line, inUnits))
    .join('\n')

/**
 * As {@link visibleLines}, for a text that is no JSON: where it spells out such a number itself, the backslash is written as its
 * number, so that no two texts look the same.
 */
export const visibleExact = (text: string): string =>
  visibleLines(
    text.replace(/\\(?=u([0-9a-f]{4}))/g, (backslash, digits: string) =>
      isWritten(String.fromCharCode(Number.parseInt(digits, 16))) ? '\\u005c' : backslash,
    ),
  )

const isWritten = (char: string): boolean =>
  char === '\\' || /\p{M}/u.test(char) || written(char, inUnits) !== char

/** A text of many lines for a terminal: line breaks and tabs stay, a carriage return goes with its newline. */
export const visibleBlock = (text: string): string =>
  text
    .replaceAll('\r\n', '\n')
    .split('\n')
    .map((line) => line.split('\t').map(visibleText).join('\t'))
    .join('\n')

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Whether bytes are a text in UTF-8 whose every character has a look; line breaks and tabs have. */
export function isPrintable(bytes: Uint8Array): boolean {
  try {
    const text = utf8.decode(bytes)
    return visibleBlock(text) === text.replaceAll('\r\n', '\n')
  } catch {
    return false
  }
}

/** One line under which something is marked: `substitute` for every UTF-16 unit without a look, so places stay; so do tabs. */
export const visibleColumns = (text: string, substitute: string): string =>
  written(text, (char) => (char === '\t' ? char : substitute.repeat(char.length)))

/**
 * A value as JSON in one line, in JSON's own escapes where a character has no look: the same value to every reader. A bigint
 * becomes its decimal digits, and what JSON has no word for becomes null.
 */
export const visibleJson = (value: unknown): string =>
  visibleLines(
    JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? String(item) : item)) ??
      'null',
  )
