import { shortHash } from '../../../core/plugin/shortHash.ts'
import type { ApprovalQuestion, QuestionPart, QuestionState } from '../../../core/plugin/vault.ts'

/** Bot API, sendMessage: "1-4096 characters after entities parsing"; UTF-16 units, to be on the safe side. */
const MOST_CHARS = 4_096
/** Left for the lines that say what became of it. */
const ROOM = 200

/** A part of a text that Telegram shows in a special way; offsets in UTF-16 units, as JavaScript counts. */
interface Entity {
  readonly type: 'bold' | 'code' | 'pre'
  readonly offset: number
  readonly length: number
}

export interface QuestionText {
  readonly text: string
  readonly entities: Entity[]
  /** False when not all of it is here, or the vault wants a second word: nobody may approve it in the chat. */
  readonly isWhole: boolean
}

/**
 * A question as the chat shows it. There is no markup in it: it is sent without a parse mode, and what a request brought
 * along is marked as code, in which Telegram makes no links, mentions or commands either.
 *
 * What decides stands before what may be long: however long the rest is, the decision hash is there.
 */
export function questionText(question: ApprovalQuestion): QuestionText {
  const { agent, kind, operation, plainWords, amount, currency, recipient, chain, scope } = question
  const text = createText(MOST_CHARS - ROOM)
  text.line('bold', headOf(question.state))
  text.field('Agent', agent)
  text.field('Asks for', kind === 'allowance' ? `${operation}, to let somebody take money later` : operation)
  text.field('Decision', shortHash(question.decisionHash))
  if (question.state === 'pending') text.field('Answer until', timeOf(question.expiresAtMs))
  else text.field('Answered by', question.decidedBy ?? 'nobody')
  if (question.isOpaque)
    text.line(
      'bold',
      '⚠ Not all of it was understood: it may do anything with this account. To approve it, look at it on the vault itself.',
    )
  if (amount !== null) text.field(amountLabel(question), currency === null ? amount : `${amount} ${currency}`)
  if (recipient !== null) text.field(kind === 'allowance' ? 'May take it' : 'To', recipient)
  if (question.isFirstTime === true) text.line('bold', 'First time to this address')
  if (question.from !== null)
    text.field('From', question.nonce === null ? question.from : `${question.from}, nonce ${question.nonce}`)
  if (question.askedBefore !== null)
    text.field('Asked before', `${timeOf(question.askedBefore.atMs)}, ${question.askedBefore.state}`)
  if (chain !== null) text.field('Chain', chain)
  if (scope !== null) text.field('Scope', scope)
  for (const words of plainWords) text.line('code', plain(words))
  for (const warning of question.warnings) text.field('⚠', warning)
  for (const reason of question.reasons) text.field('Asked because', reason)
  if (question.purpose !== null) text.said('What the agent says it is for, unchecked', question.purpose)
  // What raw parts say is in the lines above; a chat has no room for both.
  for (const part of question.parts) if (!part.isRaw) text.part(part)
  return text.done(question)
}

const amountLabel = ({ kind, isOpaque }: ApprovalQuestion): string =>
  isOpaque ? 'Amount, by the word of the agent' : kind === 'allowance' ? 'Up to' : 'Amount'

/** The head of a question's message in each of its states. */
const heads: Readonly<Record<QuestionState, string>> = {
  pending: '🔔 Approval wanted',
  approved: '✅ Approved',
  consumed: '✅ Approved and done',
  denied: '⛔ Denied',
  expired: '⌛ Expired: nobody answered in time',
  canceled: '🚫 Canceled',
  failed: '❗ Approved, and then it failed',
}

const headOf = (state: QuestionState): string => heads[state] ?? state

const timeOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')} UTC`

/** One line, without anything that acts on a screen instead of being seen. */
export const plain = (text: string): string => plainLine(text.replaceAll(/\s+/g, ' ')).trim()

/** The same, with every space that there is. */
const plainLine = (text: string): string =>
  text.replaceAll(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`)

/** A bar before each line: none can be taken for one of the message's own. */
const barred = (text: string): string =>
  text
    .split('\n')
    .map((words) => `│ ${plainLine(words)}`)
    .join('\n')

/** Whose text a part is. */
const authors: Readonly<Record<QuestionPart['by'], string>> = {
  agent: 'from the agent',
  seller: 'from the seller',
  vault: 'stored in the vault',
}

function createText(most: number) {
  let text = ''
  let isWhole = true
  let shownBytes = 0
  const entities: Entity[] = []
  const add = (type: Entity['type'] | null, part: string): void => {
    if (!isWhole || part === '') return
    if (text.length + part.length > most) {
      isWhole = false
      return
    }
    if (type !== null) entities.push({ type, offset: text.length, length: part.length })
    text += part
  }
  const line = (type: Entity['type'], words: string): void => {
    if (text !== '') add(null, '\n')
    add(type, words)
  }
  return {
    line,
    field(label: string, value: string) {
      line('bold', label)
      add(null, ': ')
      add('code', plain(value))
    },
    /** Text of the agent or the seller beside what is signed, in a block of its own. */
    said(title: string, words: string) {
      line('bold', title)
      add(null, ':\n')
      add('pre', barred(words))
    },
    /** What is signed, sent or stored: as much of it as there is room for. */
    part({ title, by, text: all, bytes, isWhole: isAll }: QuestionPart) {
      line('bold', title)
      add(null, ` (${authors[by]}, ${bytes} bytes)${all === '' ? '' : ':\n'}`)
      const shown = all === '' ? '' : barred(all)
      const cut = shown.slice(0, Math.max(0, most - text.length)).toWellFormed()
      add('pre', cut)
      if (isWhole && isAll && cut === shown) shownBytes += bytes
      else {
        shownBytes += Math.min(bytes, Buffer.byteLength(cut.replaceAll(/^│ ?/gm, '')))
        isWhole = false
      }
    },
    done({ state, parts, secondWord }: ApprovalQuestion): QuestionText {
      const bytes = parts.reduce((sum, part) => (part.isRaw ? sum : sum + part.bytes), 0)
      if (state === 'pending' && !isWhole)
        text +=
          bytes > shownBytes
            ? `\n… shown: ${grouped(shownBytes)} of ${grouped(bytes)} bytes; open the page to decide.`
            : '\n… too long for this chat; open the page to decide.'
      else if (state === 'pending' && secondWord !== null)
        text += '\n… it wants a second word; open the page to decide.'
      return { text, entities, isWhole: isWhole && secondWord === null }
    },
  }
}

const grouped = (count: number): string => count.toLocaleString('en-US')
