import type { PartDraft } from './shownPart.ts'

/** Empty lines in a row after which nobody expects more text, and spaces in a row. */
const GAP_LINES = 8
const GAP_SPACES = 40
const MOST_LETTERS = 8

/** Letters that have the look of Latin ones in nearly every typeface, as in Unicode's confusables (UTS #39). */
const cyrillicTwins = 'аеорсухѕіјһԁԛԝӏАВЕКМНОРСТУХЅІЈҺԌԚԜ'
const greekTwins = 'ονΑΒΕΖΗΙΚΜΝΟΡΤΥΧ'
const twin = new RegExp(`[${cyrillicTwins}${greekTwins}]`, 'u')
const twins = new RegExp(twin, 'gu')
/** Letters that can be Cyrillic or Greek only: who sees them expects that script. */
const unmistakable = new RegExp(
  `(?![${cyrillicTwins}${greekTwins}])[\\p{Script=Cyrillic}\\p{Script=Greek}]`,
  'u',
)
const latin = /\p{Script=Latin}/u
const rightToLeft =
  /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u
const leftToRight = /[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{N}]/u

/**
 * What a reader could overlook in a text of the agent's or the seller's, although all of it is shown: what stands far below or far to the right,
 * letters that look like others, and lines that run in two directions. Nothing of a secret, because a warning goes to every channel.
 */
export function textWarnings({ title, content, by = 'agent', isSecret = false }: PartDraft): string[] {
  if (typeof content !== 'string' || by === 'vault' || isSecret) return []
  const lines = content.split('\n')
  const goesOn = (count: number, what: string) =>
    `“${title}” goes on after ${count.toLocaleString('en')} ${what}: read it to its end.`
  const empty = longestGap(lines)
  const spaces = mostSpaces(lines)
  const letters = twinLetters(content)
  return [
    ...(empty >= GAP_LINES ? [goesOn(empty, 'empty lines')] : []),
    ...(spaces >= GAP_SPACES ? [goesOn(spaces, 'spaces in a line')] : []),
    ...(lines.some((line) => rightToLeft.test(line) && leftToRight.test(line))
      ? [
          `“${title}” has lines that run from right to left in part: their words and numbers can stand in another order than they are seen in.`,
        ]
      : []),
    ...(letters.length > 0 ? [`“${title}” has letters that look like others: ${letters.join(', ')}.`] : []),
  ]
}

/** The most empty lines in a row with something below. */
function longestGap(lines: readonly string[]): number {
  let most = 0
  let now = 0
  for (const line of lines) {
    if (line.trim() === '') now++
    else {
      most = Math.max(most, now)
      now = 0
    }
  }
  return most
}

/** The most spaces in a row with something to their right. */
const mostSpaces = (lines: readonly string[]): number =>
  lines
    .flatMap((line) => line.trimEnd().match(/ {2,}/g) ?? [])
    .reduce((most, { length }) => Math.max(most, length), 0)

/** Letters of another script that pass for Latin ones where they stand, by their numbers. */
function twinLetters(text: string): string[] {
  if (!twin.test(text)) return []
  const isOtherScript = unmistakable.test(text)
  const found = (text.match(/[\p{L}\p{M}\p{N}]+/gu) ?? []).filter(
    (word) => twin.test(word) && (!isOtherScript || latin.test(word)),
  )
  return [...new Set(found.flatMap((word) => word.match(twins)!))]
    .slice(0, MOST_LETTERS)
    .map((letter) => `U+${letter.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`)
}
