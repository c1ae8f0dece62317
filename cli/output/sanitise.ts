import { printable } from '../../core/config/printable.ts'

/** One line of text from outside, safe on a terminal: no control, invisible or reordering characters. */
export const safeLine = (text: string): string =>
  printable(text.replaceAll(/\s*[\r\n]+\s*/g, ' ').replaceAll('\t', ' '))

/** Text of many lines; line ends and tabs stay. */
export const safeText = (text: string): string =>
  text
    .split(/\r?\n/)
    .map((line) => printable(line))
    .join('\n')

/**
 * One JSON value on one line that is also safe to look at: what could act on a terminal is written as `\uXXXX`, which is
 * the same value to every reader. A bigint becomes a decimal text.
 */
export function safeJson(value: unknown): string {
  const json =
    JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? String(item) : item)) ?? 'null'
  return json.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, escapeUnits)
}

const escapeUnits = (character: string): string =>
  Array.from(
    { length: character.length },
    (_, i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`,
  ).join('')
