/**
 * Everything that could move a cursor, hide or reorder text on a terminal: controls (with escape sequences' ESC and the
 * C1 set), format characters (bidirectional marks and overrides, zero-width ones), line separators, private use, and
 * halves of surrogate pairs. Newline and tab are decided by the caller.
 */
const unsafe = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu

/** Makes text that a stranger wrote safe to print on one line; what is unsafe is shown as `\u{…}`. */
export const safeLine = (text: string): string => text.replace(unsafe, shown)

/** The same for text of many lines: newlines and tabs stay. A carriage return goes with its newline. */
export const safeText = (text: string): string =>
  text.replaceAll('\r\n', '\n').replace(unsafe, (c) => (c === '\n' || c === '\t' ? c : shown(c)))

/** JSON in one line that is safe to print: the same characters as JSON's own escapes, so that it stays the same value. */
export const safeJson = (value: unknown): string =>
  JSON.stringify(value).replace(unsafe, (c) =>
    Array.from({ length: c.length }, (_, i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, '0')}`).join(
      '',
    ),
  )

const shown = (c: string): string => `\\u{${c.codePointAt(0)!.toString(16)}}`
