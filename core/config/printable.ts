/** Control characters, invisible format characters, and the marks that reorder text on a terminal; tabs stay. */
const unprintable = /(?!\t)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]|\p{Cs}/gu

/** One line of text from outside, safe to show on a terminal: it can't move the cursor, reorder or hide anything. */
export const printable = (text: string, substitute = '\u{fffd}'): string =>
  text.replace(unprintable, substitute)
