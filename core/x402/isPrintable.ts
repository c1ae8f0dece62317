/**
 * True for text that looks the same to everyone: letters, marks, digits, punctuation, symbols and the plain space. No
 * control, bidirectional, zero-width, private or unassigned characters, and not the empty text.
 */
export const isPrintable = (text: string): boolean => /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]+$/u.test(text)
