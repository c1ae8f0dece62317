import { createHash } from 'node:crypto'
import type { ApprovalKind, ApprovalPart } from '../../core/plugin/vault.ts'
import { visibleExact, visibleLines } from '../../core/text/visibleText.ts'

/** Maximum size of the text of all parts of one approval, in bytes as shown. An owner would not read more. */
const MAX_SHOWN_BYTES = 65_536

/** One part that is signed, sent or stored, before it is made safe to show. */
export interface PartDraft {
  readonly title: string
  /** The content as text or bytes. Bytes are shown as hex. */
  readonly content: string | Uint8Array
  /** Text that is shown instead of the content, because the content is not readable. */
  readonly shownAs?: string
  readonly format?: ApprovalPart['format']
  /** Who wrote the text. Texts by the vault are not returned to an agent. Default `agent`. */
  readonly by?: ApprovalPart['by']
  /**
   * True for the encoded form of what the approval already states in words. It is shown last, and collapsed where the channel
   * allows it.
   */
  readonly isRaw?: boolean
  /** True for stored secrets, which are shown only on the owner's machine. */
  readonly isSecret?: boolean
}

export interface ShownPart extends ApprovalPart {
  readonly isSecret: boolean
}

/** Makes the parts of an approval safe to show, in order. Text beyond the size limit is cut and marked as cut. */
export function showParts(drafts: readonly PartDraft[]): ShownPart[] {
  let room = MAX_SHOWN_BYTES
  return drafts.map(({ title, content, shownAs, format, by = 'agent', isRaw = false, isSecret = false }) => {
    const original = typeof content === 'string' ? Buffer.from(content, 'utf8') : content
    const whole =
      shownAs ?? (typeof content === 'string' ? content : `0x${Buffer.from(content).toString('hex')}`)
    const isText = typeof content === 'string' && format !== 'json'
    const { text, isWhole } = fitting(whole, room, isText ? visibleExact : visibleLines)
    room -= Buffer.byteLength(text)
    return {
      title,
      text,
      format: format ?? (typeof content === 'string' ? 'text' : 'hex'),
      bytes: original.length,
      sha256: createHash('sha256').update(original).digest('hex'),
      isWhole,
      by,
      isRaw,
      isSecret,
    }
  })
}

/** The beginning of the text that fits into the limit, with invisible characters escaped. An escape sequence is never split. */
function fitting(
  text: string,
  room: number,
  visible: (text: string) => string,
): { text: string; isWhole: boolean } {
  // Each character takes at least one byte.
  const bytes = Buffer.from(visible(text.slice(0, room + 1)), 'utf8')
  if (text.length <= room && bytes.length <= room) return { text: bytes.toString('utf8'), isWhole: true }
  let end = room
  while ((bytes[end]! & 0xc0) === 0x80) end--
  return { text: bytes.toString('utf8', 0, end).replace(/\\(?:u[0-9a-f]{0,3})?$/, ''), isWhole: false }
}

/** The warning for a part that is not shown in full. */
export const cutWarning = ({ title, bytes, text, isWhole }: ShownPart): string[] =>
  isWhole
    ? []
    : [
        `NOT SHOWN IN FULL: “${title}” has ${bytes} bytes. Only its first ${text.length} characters are shown.`,
      ]

/** Maximum characters of its parts' text that a decided approval keeps. */
const MAX_STORED_CHARS = 2_000

/** What a decided approval keeps of its parts: the size and hash of each part and short texts, but no stored secrets. */
export function storedParts(kind: ApprovalKind, parts: readonly ShownPart[]): readonly ShownPart[] {
  const isShort = parts.reduce((sum, { text }) => sum + text.length, 0) <= MAX_STORED_CHARS
  const isKept = isShort && kind !== 'write' && kind !== 'delete'
  return parts.map((part) => (isKept ? part : { ...part, text: '', isWhole: false }))
}

/** Number of empty lines that look like the end of a text. The next constant is the same for spaces in a line. */
const GAP_LINES = 8
const GAP_SPACES = 40
const MAX_MESSAGES = 8

/** Letters that look like Latin letters in nearly every typeface, as in Unicode's confusables (UTS #39). */
const cyrillicTwins = 'аеорсухѕіјһԁԛԝӏАВЕКМНОРСТУХЅІЈҺԌԚԜ'
const greekTwins = 'ονΑΒΕΖΗΙΚΜΝΟΡΤΥΧ'
const twin = new RegExp(`[${cyrillicTwins}${greekTwins}]`, 'u')
const twins = new RegExp(twin, 'gu')
/**
 * Letters that can only be Cyrillic or Greek. A reader who sees one expects that script, so only words with Latin letters get a
 * warning.
 */
const unmistakable = new RegExp(
  `(?![${cyrillicTwins}${greekTwins}])[\\p{Script=Cyrillic}\\p{Script=Greek}]`,
  'u',
)
const latin = /\p{Script=Latin}/u
const rightToLeft =
  /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u
const leftToRight = /[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{N}]/u

/**
 * Warnings about what a reader could overlook in an agent's or a seller's text. These are text far below or far to the right,
 * look-alike letters, and lines of mixed direction. Secrets get no warnings, because every channel shows the warnings.
 */
export function textWarnings({ title, content, by = 'agent', isSecret = false }: PartDraft): string[] {
  if (typeof content !== 'string' || by === 'vault' || isSecret) return []
  const lines = content.split('\n')
  const goesOn = (count: number, what: string) =>
    `“${title}” continues after ${count.toLocaleString('en')} ${what}. Read all of it.`
  const empty = longestGap(lines)
  const spaces = maxSpaces(lines)
  const twins = twinLetters(content)
  return [
    ...(empty >= GAP_LINES ? [goesOn(empty, 'empty lines')] : []),
    ...(spaces >= GAP_SPACES ? [goesOn(spaces, 'spaces in a line')] : []),
    ...(lines.some((line) => rightToLeft.test(line) && leftToRight.test(line))
      ? [
          `“${title}” mixes right-to-left and left-to-right text, so its words and numbers may be in a different order than they appear.`,
        ]
      : []),
    ...(twins.length > 0 ? [`“${title}” has letters that only look Latin: ${twins.join(', ')}.`] : []),
  ]
}

/** The longest run of empty lines that has text after it. */
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

/** The longest run of spaces that has text after it on the same line. */
const maxSpaces = (lines: readonly string[]): number =>
  lines
    .flatMap((line) => line.trimEnd().match(/ {2,}/g) ?? [])
    .reduce((most, { length }) => Math.max(most, length), 0)

/** Letters of another script that look like Latin letters in their context, as code points. */
function twinLetters(text: string): string[] {
  if (!twin.test(text)) return []
  const isOtherScript = unmistakable.test(text)
  const found = (text.match(/[\p{L}\p{M}\p{N}]+/gu) ?? []).filter(
    (word) => twin.test(word) && (!isOtherScript || latin.test(word)),
  )
  return [...new Set(found.flatMap((word) => word.match(twins)!))]
    .slice(0, MAX_MESSAGES)
    .map((message) => `U+${message.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`)
}
