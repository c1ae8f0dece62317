/** What a text that others read must not hold, and where it stands. */
export interface HiddenCharacter {
  /** `U+202E`. */
  readonly codePoint: string
  /** The first character is 1; a character is a code point. */
  readonly place: number
}

/**
 * Characters that nobody sees, or that change how their neighbours are read: with them two names look alike and differ,
 * a text says one thing to a person and another to an agent, and "moc.rolyat" reads as an address. Controls; line
 * separators; all that Unicode has nothing drawn for (Default_Ignorable_Code_Point, UAX #44): marks and overrides of
 * direction, zero-width characters, joiners of emoji included, fillers, variation selectors and tags, which spell whole
 * sentences that are never shown; interlinear annotations; and the Braille pattern without a dot.
 *
 * Fine are one selector that makes a picture of the emoji before it (FE0F) or a letter (FE0E), and one that shapes the
 * Mongolian letter before it (180B–180D, 180F).
 */
const hidden =
  /(?!(?<=\p{Emoji})[\ufe0e\ufe0f]|(?<=[\u1820-\u18aa])[\u180b-\u180d\u180f])[\p{Cc}\p{DI}\u2028\u2029\u2800\ufff9-\ufffb]/gu
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
