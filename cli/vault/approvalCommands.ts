import { createInterface } from 'node:readline/promises'
import type { Command } from 'commander'
import { shortHash } from '../../core/plugin/vault.ts'
import { visibleText } from '../../core/text/visibleText.ts'
import type { ApprovalView, PartView } from '../../vault/approvals/approval.ts'
import type { Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { wrap } from '../output/table.ts'
import { asOwner, type CommonFlags, withCommonFlags } from './flags.ts'
import type { OwnerClient } from './ownerClient.ts'

interface ApproveFlags {
  readonly hash?: string
  readonly word?: string
}

/** The terminal on which the owner reads an approval's card and decides. A test can replace the process's terminal. */
export interface OwnersTerminal {
  readonly columns: number
  /** The owner's trimmed input. Empty if the prompt was canceled. */
  ask(question: string): Promise<string>
}

/** `tollgate vault approvals`, `approve` and `deny`. */
export function registerApprovals(vault: Command): void {
  withCommonFlags(vault.command('approvals'))
    .description('Show the open approvals. With an id, show this approval in full.')
    .argument('[id]', 'id of an approval to show in full')
    .option('--all', 'also show approvals that were decided')
    .action((id: string | undefined, flags: CommonFlags & { all?: boolean }) =>
      asOwner(flags, (client, output) =>
        id === undefined
          ? listApprovals(client, output, flags.all === true)
          : showApproval(client, output, id),
      ),
    )

  withCommonFlags(vault.command('approve'))
    .description('Show an approval in full, and approve exactly what was shown.')
    .argument('<id>', 'id of the approval')
    .option(
      '--hash <hex>',
      'approve without a prompt if the approval still has this decision hash; required in scripts',
    )
    .option(
      '--word <word>',
      'second word of the approval, required if the request could not be fully decoded or shown in full',
    )
    .action((id: string, flags: CommonFlags & ApproveFlags) =>
      asOwner(flags, (client, output) => approve(client, output, terminalOf(output), id, flags)),
    )

  withCommonFlags(vault.command('deny'))
    .description('Show an approval, and deny it.')
    .argument('<id>', 'id of the approval')
    .action((id: string, flags: CommonFlags) => asOwner(flags, (client, output) => deny(client, output, id)))
}

const pathOf = (id: string): string => `/v1/vault/approvals/${encodeURIComponent(id)}`

/** Lists the open approvals, or all approvals that the vault still has. */
export async function listApprovals(client: OwnerClient, output: Output, isAll: boolean): Promise<void> {
  const path = isAll ? '/v1/vault/approvals' : '/v1/vault/approvals?status=pending'
  const response = await client.call<{ approvals: ApprovalView[] }>('GET', path)
  output.rows(
    response.approvals,
    [
      { title: 'Id', value: ({ id }) => id, isWhole: true },
      { title: 'Status', value: ({ status }) => status },
      { title: 'Agent', value: ({ agent }) => agent },
      { title: 'Decision', value: ({ decision_hash }) => shortHash(decision_hash), isWhole: true },
      { title: 'What', value: ({ effects }) => effects.join(' '), isWhole: true },
    ],
    'No open approvals.',
  )
}

async function showApproval(client: OwnerClient, output: Output, id: string): Promise<void> {
  const view = await client.call<ApprovalView>('GET', pathOf(id))
  output.result(view, approvalCard(view, columns()))
}

/**
 * Shows the card, then prompts the owner. Without a terminal, the owner has to pass the hash of the card that they read.
 *
 * @param terminal undefined if there is no terminal
 * @throws {UsageError} if the owner did not approve
 */
export async function approve(
  client: OwnerClient,
  output: Output,
  terminal: OwnersTerminal | undefined,
  id: string,
  { hash, word }: ApproveFlags,
): Promise<void> {
  if (terminal === undefined && hash === undefined)
    throw new UsageError(
      `Expected --hash with the decision_hash of the card that you read: tollgate vault approvals ${id} shows it. Nothing was approved.`,
    )
  const shown = await client.call<ApprovalView>('GET', pathOf(id))
  if (terminal !== undefined) output.say(approvalCard(shown, terminal.columns))
  if (shown.status === 'pending' && hash !== undefined && hash !== shown.decision_hash)
    throw new UsageError(
      `Expected --hash ${shown.decision_hash}, the decision hash of ${id}, got another hash. Nothing was approved.`,
    )
  // An approval that is no longer pending needs no prompt, because the vault refuses it.
  const isOpen = shown.status === 'pending'
  const secondWord = isOpen && word === undefined ? await typedWord(shown, terminal) : word
  if (isOpen && hash === undefined && shown.second_word === null && terminal !== undefined) {
    const response = await terminal.ask('Approve exactly this? [y/N] ')
    if (!/^y(?:es)?$/i.test(response)) throw new UsageError('Nothing was approved.')
  }
  const approved = await client.call<ApprovalView>('POST', `${pathOf(id)}/approve`, {
    decision_hash: hash ?? shown.decision_hash,
    ...(secondWord !== undefined && { second_word: secondWord }),
  })
  output.result(approved, `Approved for ${approved.agent}.`)
}

/** Prompts for the second word, which also confirms the approval. */
async function typedWord(
  { second_word }: ApprovalView,
  terminal: OwnersTerminal | undefined,
): Promise<string | undefined> {
  if (second_word === null) return undefined
  const why =
    second_word === 'blind'
      ? 'The vault could not decode the whole request.'
      : 'What the request signs, sends or stores is not shown in full.'
  if (terminal === undefined)
    throw new UsageError(`${why} Expected --word ${second_word} beside --hash. Nothing was approved.`)
  const typed = await terminal.ask(`${why} To approve anyway, type ${second_word}: `)
  if (typed !== second_word) throw new UsageError('Nothing was approved.')
  return typed
}

/** Shows the card and denies the approval. There is no prompt, because denying gives nothing away. */
export async function deny(client: OwnerClient, output: Output, id: string): Promise<void> {
  const shown = await client.call<ApprovalView>('GET', pathOf(id))
  output.say(approvalCard(shown, columns()))
  const denied = await client.call<ApprovalView>('POST', `${pathOf(id)}/deny`, {})
  output.result(denied, `Denied for ${denied.agent}.`)
}

/** Terminal width. Some terminals report 0 columns. */
const columns = (): number => process.stdout.columns || 80

/** The terminal, if standard input and standard output are both terminals. Otherwise undefined. */
function terminalOf({ isJson }: Output): OwnersTerminal | undefined {
  if (isJson || !process.stdin.isTTY) return undefined
  return {
    columns: columns(),
    async ask(question) {
      const lines = createInterface({ input: process.stdin, output: process.stdout })
      const { promise: left, resolve } = Promise.withResolvers<string>()
      const leave = () => {
        process.stdout.write('\n')
        resolve('')
      }
      lines.once('close', leave)
      try {
        return (await Promise.race([lines.question(question), left])).trim()
      } finally {
        lines.off('close', leave)
        lines.close()
      }
    },
  }
}

const titles: Readonly<Record<ApprovalView['kind'], string>> = {
  transfer: 'sign a transfer',
  allowance: 'let another account take money later',
  payment: 'make a payment',
  payment_up_to: 'make a payment by use',
  deposit: 'deposit into a payment channel',
  transaction: 'sign a transaction',
  sign_in: 'sign in to a site',
  message: 'sign a message',
  typed_data: 'sign typed data',
  read: 'read a stored value',
  write: 'store a value',
  delete: 'delete a stored value',
  call: 'call an API',
}

/** The author of each part's text. */
const authors: Readonly<Record<PartView['by'], string>> = {
  agent: 'from the agent',
  seller: 'from the offer that the agent sent',
  vault: 'stored in the vault',
}

/** Eight or more empty lines, or forty or more spaces, in a row. The card shows their count instead. */
const gap = /((?<=\n)(?: *\n){8,}| {40,})/

const gapWords = (piece: string): string => {
  const lines = piece.split('\n').length - 1
  return lines === 0
    ? `${piece.length.toLocaleString('en')} spaces`
    : `${lines.toLocaleString('en')} empty lines`
}

/**
 * An approval in full, as lines of at most `columns`. Only the card's own words begin a line. Every line of other text begins
 * with a bar or an indent, so that it cannot look like a line of the card. The fields on which the decision depends come after
 * the parts, because a terminal shows the end of a long text.
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
    view.amount !== null &&
      `${view.opaque ? 'Amount claimed by the agent, not verified' : view.kind === 'payment_up_to' ? 'At most' : 'Amount'}: ${amount}`,
    view.recipient !== null && `${view.kind === 'allowance' ? 'Taken by' : 'To'}: ${view.recipient}`,
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
    ...(view.opaque ? ['NOT FULLY DECODED. The request may do anything with this account.'] : []),
    ...list('What happens:', view.effects),
    ...list('Warnings:', view.warnings),
    ...list('Why you are asked:', view.reasons),
    ...(view.purpose === null ? [] : ['Purpose, from the agent, unchecked:', ...textLines(view.purpose)]),
    `Approval: ${view.id}`,
    'Decision hash:',
    `  ${view.decision_hash}`,
  ].join('\n')

  function partLines({ title, by, text, bytes, sha256, whole }: PartView): string[] {
    const size = whole ? `${bytes} bytes` : `${bytes} bytes, NOT SHOWN IN FULL`
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
