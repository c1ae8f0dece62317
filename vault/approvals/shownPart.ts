import { createHash } from 'node:crypto'
import type { QuestionPart } from '../../core/plugin/vault.ts'
import { visibleLines } from '../effects/visibleText.ts'

/** Most text of one card's parts together, in bytes as it is shown. More than this nobody reads. */
const mostShownBytes = 65_536

/** Something that is signed, sent or stored, before it is made fit for showing. */
export interface PartDraft {
  readonly title: string
  /** Bytes are shown as hex. */
  readonly content: string | Uint8Array
  /** What is shown for it where that is not the content itself. */
  readonly shownAs?: string
  readonly format?: QuestionPart['format']
  /** Whose it is: an agent gets back only what it sent. Default `agent`. */
  readonly by?: 'agent' | 'vault'
  /** True for stored values: shown on the owner's machine only, and forgotten when it is decided. */
  readonly isSecret?: boolean
}

export interface ShownPart extends QuestionPart {
  readonly by: 'agent' | 'vault'
  readonly isSecret: boolean
}

/** The parts of a card in their order. What is beyond the length of a card is cut, and says that it is. */
export function showParts(drafts: readonly PartDraft[]): ShownPart[] {
  let room = mostShownBytes
  return drafts.map(({ title, content, shownAs, format, by = 'agent', isSecret = false }) => {
    const original = typeof content === 'string' ? Buffer.from(content, 'utf8') : content
    const whole =
      shownAs ?? (typeof content === 'string' ? content : `0x${Buffer.from(content).toString('hex')}`)
    const { text, isWhole } = fitting(whole, room)
    room -= Buffer.byteLength(text)
    return {
      title,
      text,
      format: format ?? (typeof content === 'string' ? 'text' : 'hex'),
      bytes: original.length,
      sha256: createHash('sha256').update(original).digest('hex'),
      isWhole,
      by,
      isSecret,
    }
  })
}

/** As much of the text as has room, made visible. */
function fitting(text: string, room: number): { text: string; isWhole: boolean } {
  const all = text.length > room ? undefined : visibleLines(text)
  if (all !== undefined && Buffer.byteLength(all) <= room) return { text: all, isWhole: true }
  let [fits, tooMany] = [0, Math.min(text.length, room) + 1]
  while (tooMany - fits > 1) {
    const middle = (fits + tooMany) >> 1
    if (Buffer.byteLength(visibleLines(text.slice(0, middle))) <= room) fits = middle
    else tooMany = middle
  }
  return { text: visibleLines(text.slice(0, fits)), isWhole: false }
}

/** What the owner is told of a part that is not shown whole. */
export const cutWarning = ({ title, bytes, text, isWhole }: ShownPart): string[] =>
  isWhole
    ? []
    : [
        `NOT ALL OF IT IS SHOWN: “${title}” has ${bytes} bytes; only its beginning stands here, ${text.length} characters.`,
      ]

/** Most text of its parts that a question keeps when it is decided, in characters. */
const mostKeptChars = 2_000

/** What is kept of the parts of a decided question: no stored value, and only short texts; sizes and hashes of all. */
export function keptParts(parts: readonly ShownPart[]): readonly ShownPart[] {
  const isShort = parts.reduce((sum, { text }) => sum + text.length, 0) <= mostKeptChars
  return parts.map((part) => (isShort && !part.isSecret ? part : { ...part, text: '', isWhole: false }))
}
