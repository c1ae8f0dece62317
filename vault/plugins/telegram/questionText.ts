import { shortHash } from '../../../core/plugin/shortHash.ts'
import type { ApprovalQuestion, QuestionState } from '../../../core/plugin/vault.ts'

/** Bot API, sendMessage: "1-4096 characters after entities parsing"; UTF-16 units, to be on the safe side. */
const mostChars = 4_096
/** Left for the lines that say what became of it. */
const room = 200

/** A part of a text that Telegram shows in a special way; offsets in UTF-16 units, as JavaScript counts. */
interface Entity {
  readonly type: 'bold' | 'code'
  readonly offset: number
  readonly length: number
}

export interface QuestionText {
  readonly text: string
  readonly entities: Entity[]
  /** False when not all of it fits: nobody may approve what was not shown. */
  readonly isWhole: boolean
}

/**
 * A question as the chat shows it. There is no markup in it: it is sent without a parse mode, and what a request brought
 * along is marked as code, in which Telegram makes no links, mentions or commands either.
 */
export function questionText(question: ApprovalQuestion): QuestionText {
  const { agent, operation, plainWords, amount, currency, recipient, chain, scope } = question
  const text = createText(mostChars - room)
  text.line('bold', headOf(question.state))
  text.field('Agent', agent)
  text.field('Asks for', operation)
  for (const words of plainWords) text.line('code', plain(words))
  if (amount !== null) text.field('Amount', currency === null ? amount : `${amount} ${currency}`)
  if (recipient !== null) text.field('To', recipient)
  if (chain !== null) text.field('Chain', chain)
  if (scope !== null) text.field('Scope', scope)
  text.field('Purpose', question.purpose ?? 'not said')
  if (question.isOpaque)
    text.line(
      'bold',
      '⚠ Not all of it was understood: it may do anything with this account. To approve it, look at it on the vault itself.',
    )
  for (const warning of question.warnings) text.field('⚠', warning)
  for (const reason of question.reasons) text.field('Asked because', reason)
  text.field('Decision', shortHash(question.decisionHash))
  if (question.state === 'pending') text.field('Answer until', timeOf(question.expiresAtMs))
  else text.field('Answered by', question.decidedBy ?? 'nobody')
  return text.done()
}

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
export const plain = (text: string): string =>
  text
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`)
    .trim()

function createText(most: number) {
  let text = ''
  let isWhole = true
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
    done(): QuestionText {
      if (!isWhole) text += '\n… too long for this chat. Look at it, and approve it, on the vault itself.'
      return { text, entities, isWhole }
    },
  }
}
