/**
 * Every character without a visible form of its own. The first class has controls, unassigned characters and other spaces. The
 * others have characters that are ignored when drawn, blanks, and marks that strike out or enclose their letter.
 */
const hidden =
  /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]|[\p{Default_Ignorable_Code_Point}\u2800\p{Me}]|[\u0334-\u0338]|[\u20d2-\u20d3]|[\u20d8-\u20da]|[\u20e5-\u20e6]|[\u20ea-\u20eb]/gu
/** Marks that begin a line, or that follow three other marks. They are drawn over other characters or lines. */
const strayMarks = /(?<=^|\n)\p{M}+|(?<=\p{M}{3})\p{M}+/gu
/** Letters and digits that are written from right to left, by the ranges that Unicode reserves for them (UAX #9, table 4). */
const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/gu

const inBraces = (char: string): string => `\\u{${char.codePointAt(0)!.toString(16)}}`
/** A character as JSON and JavaScript escape it, which is a pair of units above U+FFFF. */
const inUnits = (char: string): string =>
  Array.from(
    { length: char.length },
    (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`,
  ).join('')

const each = (write: (char: string) => string) => (run: string) => Array.from(run, write).join('')

const written = (text: string, write: (char: string) => string): string =>
  text.replace(strayMarks, each(write)).replace(hidden, write)

/**
 * One line of untrusted text in an unambiguous form. A character is written as its number, such as `\u{202e}`, if it is invisible,
 * changes the direction of writing or is drawn over its neighbors.
 */
export const visibleText = (text: string): string => written(text, inBraces)

/**
 * Like {@link visibleText}, for a text inside a sentence. Right-to-left characters are escaped too, because they could reorder the
 * words and digits of the sentence.
 */
export const visibleInSentence = (text: string): string => visibleText(text).replace(rightToLeft, inBraces)

/**
 * A complete text that is shown separately. Its line breaks stay. Every other character without a visible form is escaped, such as
 * `\u202e`, so that JSON stays the same JSON.
 */
export const visibleLines = (text: string): string =>
  text
    .split('\n')
    .map((line) => written(line, inUnits))
    .join('\n')

/**
 * Like {@link visibleLines}, for a text that is not JSON. If the text already contains such an escape, its backslash is escaped, so
 * that two different texts never look the same.
 */
export const visibleExact = (text: string): string =>
  visibleLines(
    text.replace(/\\(?=u([0-9a-f]{4}))/g, (backslash, digits: string) =>
      isWritten(String.fromCharCode(Number.parseInt(digits, 16))) ? '\\u005c' : backslash,
    ),
  )

const isWritten = (char: string): boolean =>
  char === '\\' || /\p{M}/u.test(char) || written(char, inUnits) !== char

/** A text of several lines for a terminal. Line breaks and tabs stay, and a carriage return before a newline is dropped. */
export const visibleBlock = (text: string): string =>
  text
    .replaceAll('\r\n', '\n')
    .split('\n')
    .map((line) => line.split('\t').map(visibleText).join('\t'))
    .join('\n')

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Whether bytes are UTF-8 text in which every character has a visible form. Line breaks and tabs count as visible. */
export function isPrintable(bytes: Uint8Array): boolean {
  try {
    const text = utf8.decode(bytes)
    return visibleBlock(text) === text.replaceAll('\r\n', '\n')
  } catch {
    return false
  }
}

/**
 * A line above a marker. Every UTF-16 unit without a visible form becomes `substitute`, so that the columns stay. Tabs stay too.
 */
export const visibleColumns = (text: string, substitute: string): string =>
  written(text, (char) => (char === '\t' ? char : substitute.repeat(char.length)))

/**
 * A value as JSON in one line. Characters without a visible form have JSON's own escapes, so that every reader gets the same value.
 * A bigint becomes its decimal digits, and a value that JSON cannot represent becomes null.
 */
export const visibleJson = (value: unknown): string =>
  visibleLines(
    JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? String(item) : item)) ??
      'null',
  )
