/** What a text that others read must not hold, and where it stands. */
export interface HiddenCharacter {
  /** `U+202E`. */
  readonly codePoint: string
  /** The first character is 1; a character is a code point. */
  readonly place: number
}

/**
 * Characters that nobody sees, or that change how their neighbours are read: with them two names look alike and differ,
 * a text says one thing to a person and another to an agent, and "moc.rolyat" reads as an address. Controls; marks and
 * overrides of direction (UAX #9: 061C, 200E, 200F, 202A–202E, 2066–2069); zero-width characters, joiners of emoji
 * included (200B–200D, 2060–2065, 206A–206F, FEFF, 180E, 00AD, 034F, FFF9–FFFB); letters without ink (115F, 1160, 3164,
 * FFA0, 17B4, 17B5); line separators; tags (E0000–E007F), which spell whole sentences that are never shown.
 */
const hidden =
  /[\p{Cc}\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]|\u034f/gu
const lineControls = new Set(['\t', '\n', '\r'])

/** The first such character of a text. @param lines whether tab and line ends belong to it */
export function hiddenCharacterIn(text: string, lines: 'one' | 'many'): HiddenCharacter | undefined {
  for (const { 0: character, index } of text.matchAll(hidden)) {
    if (lines === 'many' && lineControls.has(character)) continue
    const codePoint = `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`
    return { codePoint, place: [...text.slice(0, index)].length + 1 }
  }
}

/** The refusal in words, for the field that the text is of. */
export const refusalOf = ({ codePoint, place }: HiddenCharacter): string =>
  `Expected text without control characters and without invisible ones or ones that turn the direction of writing; character ${place} is ${codePoint}. Leave it out.`
