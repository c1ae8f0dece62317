import { createHash } from 'node:crypto'
import type { QuestionKind, QuestionPart } from '../../core/plugin/vault.ts'
import { visibleExact, visibleLines } from '../../core/text/visibleText.ts'

/** Most text of one card's parts together, in bytes as it is shown. More than this nobody reads. */
const MOST_SHOWN_BYTES = 65_536

/** Something that is signed, sent or stored, before it is made fit for showing. */
export interface PartDraft {
  readonly title: string
  /** Bytes are shown as hex. */
  readonly content: string | Uint8Array
  /** What is shown for it where that is not the content itself. */
  readonly shownAs?: string
  readonly format?: QuestionPart['format']
  /** Whose text it is: of what the vault keeps, an agent gets nothing back. Default `agent`. */
  readonly by?: QuestionPart['by']
  /** True for the raw form of what the card says in words beside it: shown last, and folded where a card can fold. */
  readonly isRaw?: boolean
  /** True for stored values: shown on the owner's machine only. */
  readonly isSecret?: boolean
}

export interface ShownPart extends QuestionPart {
  readonly isSecret: boolean
}

/** The parts of a card in their order. What is beyond the length of a card is cut, and says that it is. */
export function showParts(drafts: readonly PartDraft[]): ShownPart[] {
  let room = MOST_SHOWN_BYTES
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

/** As much of the text as has room, made visible; an escape is not cut in two. */
function fitting(
  text: string,
  room: number,
  visible: (text: string) => string,
): { text: string; isWhole: boolean } {
  // Every character takes a byte at least.
  const bytes = Buffer.from(visible(text.slice(0, room + 1)), 'utf8')
  if (text.length <= room && bytes.length <= room) return { text: bytes.toString('utf8'), isWhole: true }
  let end = room
  while ((bytes[end]! & 0xc0) === 0x80) end--
  return { text: bytes.toString('utf8', 0, end).replace(/\\(?:u[0-9a-f]{0,3})?$/, ''), isWhole: false }
}

/** What the owner is told of a part that is not shown whole. */
export const cutWarning = ({ title, bytes, text, isWhole }: ShownPart): string[] =>
  isWhole
    ? []
    : [
        `NOT ALL OF IT IS SHOWN: “${title}” has ${bytes} bytes; only its beginning stands here, ${text.length} characters.`,
      ]

/** Most text of its parts that a question keeps when it is decided, in characters. */
const MOST_KEPT_CHARS = 2_000

/** What is kept of the parts of a decided question: nothing of stored values, and short texts; sizes and hashes of all. */
export function keptParts(kind: QuestionKind, parts: readonly ShownPart[]): readonly ShownPart[] {
  const isShort = parts.reduce((sum, { text }) => sum + text.length, 0) <= MOST_KEPT_CHARS
  const isKept = isShort && kind !== 'write' && kind !== 'delete'
  return parts.map((part) => (isKept ? part : { ...part, text: '', isWhole: false }))
}
