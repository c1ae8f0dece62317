/** Longest text of somebody else that is shown, in characters. */
const maxShown = 500

/**
 * Text from an agent or a contract for showing to the owner: in quotes, with everything that has no plain look
 * (controls, bidirectional and zero-width characters, unassigned ones) written as its number, and cut when it is long.
 */
export function showText(text: string, max: number = maxShown): string {
  const cut = text.length > max ? `${text.slice(0, max)}…` : text
  const plain = cut.replace(
    /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu,
    (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`,
  )
  return `“${plain}”`
}
