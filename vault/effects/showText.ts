import { visibleInSentence } from './visibleText.ts'

/** Longest text of somebody else that is shown, in characters. */
export const maxShown = 500

/**
 * Text from an agent or a contract inside a sentence to the owner: in quotes, with everything that has no plain look, or
 * that runs from right to left, written as its number, and cut when it is long. A cut text stands whole in a part of its own.
 */
export function showText(text: string, max: number = maxShown): string {
  const cut = text.length > max ? `${text.slice(0, max)}…` : text
  return `“${visibleInSentence(cut)}”`
}
