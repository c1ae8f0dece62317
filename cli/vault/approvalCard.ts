import { visibleText } from '../../core/text/visibleText.ts'
import type { ApprovalView, PartView } from '../../vault/approvals/approval.ts'
import { wrap } from '../output/displayWidth.ts'

const titles: Readonly<Record<ApprovalView['kind'], string>> = {
  transfer: 'sign a transfer',
  allowance: 'let somebody take money later',
  payment: 'pay for something',
  transaction: 'sign a transaction',
  sign_in: 'sign in somewhere',
  message: 'sign a message',
  typed_data: 'sign typed data',
  read: 'hand out a stored value',
  write: 'store a value',
  delete: 'delete a stored value',
  call: 'call an API',
}

/** Whose text a part is. */
const authors: Readonly<Record<PartView['by'], string>> = {
  agent: 'from the agent',
  seller: 'from the seller',
  vault: 'stored in the vault',
}

/** Eight empty lines, or forty spaces, and more: their number says more than the sight. */
const gap = /((?<=\n)(?: *\n){8,}| {40,})/

const gapWords = (piece: string): string => {
  const lines = piece.split('\n').length - 1
  return lines === 0
    ? `${piece.length.toLocaleString('en')} spaces`
    : `${lines.toLocaleString('en')} empty lines`
}

/**
 * A question to the owner, whole, as lines of at most `columns`. The card's own words begin a line; everything that came
 * from elsewhere stands behind a bar or an indent on every line, so that no text can look like a line of the card. What decides stands
 * below the parts: a terminal shows the end of what is long.
 */
export function approvalCard(view: ApprovalView, columns: number): string {
  const width = Math.max(20, columns - 4)
  const indented = (text: string) => wrap(visibleText(text), width).map((line) => `  ${line}`)
  const list = (title: string, texts: readonly string[]) =>
    texts.length === 0 ? [] : [title, ...texts.flatMap(wrapped)]
  const wrapped = (text: string) => indented(text).map((line, i) => (i === 0 ? line : `  ${line}`))
  const amount = view.currency === null ? view.amount : `${view.amount} ${view.currency}`
  const facts = [
    view.scope !== null && `Scope: ${view.scope}`,
    view.chain !== null && `Chain: ${view.chain}`,
    view.amount !== null && `${view.opaque ? 'Amount, by the word of the agent' : 'Amount'}: ${amount}`,
    view.recipient !== null && `${view.kind === 'allowance' ? 'May take it' : 'To'}: ${view.recipient}`,
    view.first_time === true && 'First time to this address.',
    view.from !== null && `From: ${view.from}${view.nonce === null ? '' : `, nonce ${view.nonce}`}`,
    view.asked_before !== null && `Asked before at ${view.asked_before.at}: ${view.asked_before.status}.`,
    `Status: ${view.status}, until ${view.expires_at}`,
  ].filter((line) => line !== false)
  const head = `${visibleText(view.agent)} asks to ${titles[view.kind]}.`
  return [
    ...(view.parts.length === 0 ? [] : [head, ...view.parts.flatMap(partLines)]),
    head,
    ...facts.flatMap(wrapped),
    ...(view.opaque ? ['NOT UNDERSTOOD: it may do anything with this account.'] : []),
    ...list('What happens:', view.effects),
    ...list('Be careful:', view.warnings),
    ...list('You are asked because:', view.reasons),
    ...(view.purpose === null
      ? []
      : ['What the agent says it is for, unchecked:', ...textLines(view.purpose)]),
    `Approval: ${view.id}`,
    'Decision hash:',
    `  ${view.decision_hash}`,
  ].join('\n')

  function partLines({ title, by, text, bytes, sha256, whole }: PartView): string[] {
    const size = whole ? `${bytes} bytes` : `${bytes} bytes, NOT ALL OF THEM SHOWN`
    return [
      `${visibleText(title)} (${authors[by]}; ${size}, SHA-256 ${sha256}):`,
      ...text
        .split(gap)
        .flatMap((piece, i, { length }) =>
          i % 2 === 1
            ? [`  ┆ ${gapWords(piece)}`]
            : textLines(i === length - 1 ? piece : piece.replace(/\n$/, '')),
        ),
    ]
  }

  function textLines(text: string): string[] {
    return text
      .split('\n')
      .flatMap((line) => wrap(visibleText(line), width, 'anywhere'))
      .map((line) => `  │ ${line}`)
  }
}
