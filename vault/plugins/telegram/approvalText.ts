import {
  type ApprovalPart,
  type ApprovalRequest,
  type ApprovalRequestState,
  shortHash,
} from '../../../core/plugin/vault.ts'

/** Maximum text of a message, in UTF-16 units (Bot API, sendMessage: "1-4096 characters after entities parsing"). */
const MAX_CHARS = 4_096
/** Characters that are reserved for the lines about the outcome. */
const ROOM = 200

/** A formatted range of a text in Telegram. Offsets are UTF-16 units, as in JavaScript. */
interface Entity {
  readonly type: 'bold' | 'code' | 'pre'
  readonly offset: number
  readonly length: number
}

export interface ApprovalText {
  readonly text: string
  readonly entities: Entity[]
  /** False if the text is incomplete or the vault requires a second word. The request cannot be approved in the chat then. */
  readonly isWhole: boolean
}

/**
 * An approval as the chat shows it. It is sent without a parse mode, so it has no markup. Text from the request is formatted as
 * code, in which Telegram makes no links, mentions or commands.
 *
 * The facts on which the decision depends come before text that may be long, so the decision hash is always included.
 */
export function approvalText(approval: ApprovalRequest): ApprovalText {
  const { agent, kind, operation, plainWords, amount, currency, recipient, chain, scope } = approval
  const text = createText(MAX_CHARS - ROOM)
  text.line('bold', headOf(approval.state))
  text.field('Agent', agent)
  text.field(
    'Requests',
    kind === 'allowance' ? `${operation}, to let another account take money later` : operation,
  )
  text.field('Decision', shortHash(approval.decisionHash))
  if (approval.state === 'pending') text.field('Decide until', timeOf(approval.expiresAtMs))
  else text.field('Decided by', approval.decidedBy ?? 'not decided')
  if (approval.isOpaque)
    text.line(
      'bold',
      '⚠ Not fully decoded. The request may do anything with this account. To approve the request, read it on the page or in a terminal.',
    )
  if (amount !== null) text.field(amountLabel(approval), currency === null ? amount : `${amount} ${currency}`)
  if (recipient !== null) text.field(kind === 'allowance' ? 'Taken by' : 'To', recipient)
  if (approval.isFirstTime === true) text.line('bold', 'First time to this address')
  if (approval.from !== null)
    text.field('From', approval.nonce === null ? approval.from : `${approval.from}, nonce ${approval.nonce}`)
  if (approval.askedBefore !== null)
    text.field('Asked before', `${timeOf(approval.askedBefore.atMs)}, ${approval.askedBefore.state}`)
  if (chain !== null) text.field('Chain', chain)
  if (scope !== null) text.field('Scope', scope)
  for (const words of plainWords) text.line('code', plain(words))
  for (const warning of approval.warnings) text.field('⚠', warning)
  for (const reason of approval.reasons) text.field('Why you are asked', reason)
  if (approval.purpose !== null) text.said('Purpose, from the agent, unchecked', approval.purpose)
  // Raw parts are left out, because the lines above state their content and a chat has no room for both.
  for (const part of approval.parts) if (!part.isRaw) text.part(part)
  return text.done(approval)
}

function amountLabel({ kind, isOpaque }: ApprovalRequest): string {
  if (isOpaque) return 'Amount claimed by the agent, not verified'
  if (kind === 'allowance') return 'Up to'
  return kind === 'payment_up_to' ? 'At most' : kind === 'deposit' ? 'Deposit' : 'Amount'
}

/** The first line of the message in each state. */
const heads: Readonly<Record<ApprovalRequestState, string>> = {
  pending: '🔔 Approval requested',
  approved: '✅ Approved',
  consumed: '✅ Approved and done',
  denied: '⛔ Denied',
  expired: '⌛ Expired: not decided in time',
  canceled: '🚫 Canceled',
  failed: '❗ Approved, but failed',
}

const headOf = (state: ApprovalRequestState): string => heads[state] ?? state

const timeOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')} UTC`

/** A text in one line. Characters that control the screen instead of being visible are written as code points. */
export const plain = (text: string): string => plainLine(text.replaceAll(/\s+/g, ' ')).trim()

/** The same as `plain`, with all spaces. */
const plainLine = (text: string): string =>
  text.replaceAll(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`)

/** Puts a bar before each line, so that no line can be mistaken for a line of the vault. */
const barred = (text: string): string =>
  text
    .split('\n')
    .map((words) => `│ ${plainLine(words)}`)
    .join('\n')

/** The author of each part's text. */
const authors: Readonly<Record<ApprovalPart['by'], string>> = {
  agent: 'from the agent',
  seller: 'from the offer that the agent sent',
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
    /** The agent's text beside what is signed, in a block of its own. */
    said(title: string, words: string) {
      line('bold', title)
      add(null, ':\n')
      add('pre', barred(words))
    },
    /** What is signed, sent or stored, as far as it fits. */
    part({ title, by, text: all, bytes, isWhole: isAll }: ApprovalPart) {
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
    done({ state, parts, secondWord }: ApprovalRequest): ApprovalText {
      const bytes = parts.reduce((sum, part) => (part.isRaw ? sum : sum + part.bytes), 0)
      if (state === 'pending' && !isWhole)
        text +=
          bytes > shownBytes
            ? `\n… shown: ${grouped(shownBytes)} of ${grouped(bytes)} bytes. Open the page to decide.`
            : '\n… too long for this chat. Open the page to decide.'
      else if (state === 'pending' && secondWord !== null)
        text += '\n… requires a second word. Open the page to decide.'
      return { text, entities, isWhole: isWhole && secondWord === null }
    },
  }
}

const grouped = (count: number): string => count.toLocaleString('en-US')
