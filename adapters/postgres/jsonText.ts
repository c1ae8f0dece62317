/**
 * JSON that PostgreSQL's jsonb takes: it has no NUL and no half of a surrogate pair. A text from outside that has one is stored
 * with U+FFFD in its place, as those of other statements are.
 */
export function jsonText(value: unknown): string {
  const text = JSON.stringify(value)
  // Of what JSON.stringify escapes by number only these are not taken.
  return odd.test(text) ? JSON.stringify(value, mended) : text
}

const odd = /\\u(?:0000|d[89a-f])/

const mended = (_: string, value: unknown): unknown =>
  typeof value === 'string' ? value.toWellFormed().replaceAll('\0', '\ufffd') : value
