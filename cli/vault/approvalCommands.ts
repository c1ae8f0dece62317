import { createInterface } from 'node:readline/promises'
import type { Command } from 'commander'
import { shortHash } from '../../core/plugin/shortHash.ts'
import type { ApprovalView } from '../../vault/approvals/approval.ts'
import type { Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { approvalCard } from './approvalCard.ts'
import { asOwner, type CommonFlags, withCommonFlags } from './flags.ts'
import type { OwnerClient } from './ownerClient.ts'

interface ApproveFlags {
  readonly hash?: string
  readonly word?: string
}

/** Where somebody sits who can read a card and answer; the process's own terminal, or a test's. */
export interface OwnersTerminal {
  readonly columns: number
  /** What is typed to a question, without spaces around it; empty when it was left. */
  ask(question: string): Promise<string>
}

/** `tollgate vault approvals`, `approve` and `deny`. */
export function registerApprovals(vault: Command): void {
  withCommonFlags(vault.command('approvals'))
    .description('Show what agents are waiting for; with an id, that one whole.')
    .argument('[id]', 'one approval')
    .option('--all', 'answered ones too')
    .action((id: string | undefined, flags: CommonFlags & { all?: boolean }) =>
      asOwner(flags, (client, output) =>
        id === undefined
          ? listApprovals(client, output, flags.all === true)
          : showApproval(client, output, id),
      ),
    )

  withCommonFlags(vault.command('approve'))
    .description('Show what an agent asked for, whole, and allow exactly that.')
    .argument('<id>', 'the approval')
    .option('--hash <hex>', 'allow it without asking, only with this decision hash; needed in scripts')
    .option('--word <word>', 'the second word that the card wants where it is not understood or not whole')
    .action((id: string, flags: CommonFlags & ApproveFlags) =>
      asOwner(flags, (client, output) => approve(client, output, terminalOf(output), id, flags)),
    )

  withCommonFlags(vault.command('deny'))
    .description('Show what an agent asked for, and refuse it.')
    .argument('<id>', 'the approval')
    .action((id: string, flags: CommonFlags) => asOwner(flags, (client, output) => deny(client, output, id)))
}

const pathOf = (id: string): string => `/v1/vault/approvals/${encodeURIComponent(id)}`

/** Lists what waits, or everything that the vault still knows. */
export async function listApprovals(client: OwnerClient, output: Output, isAll: boolean): Promise<void> {
  const path = isAll ? '/v1/vault/approvals' : '/v1/vault/approvals?status=pending'
  const answer = await client.call<{ approvals: ApprovalView[] }>('GET', path)
  output.rows(
    answer.approvals,
    [
      { title: 'Id', value: ({ id }) => id, isWhole: true },
      { title: 'Status', value: ({ status }) => status },
      { title: 'Agent', value: ({ agent }) => agent },
      { title: 'Decision', value: ({ decision_hash }) => shortHash(decision_hash), isWhole: true },
      { title: 'What', value: ({ effects }) => effects.join(' '), isWhole: true },
    ],
    'Nobody is waiting.',
  )
}

async function showApproval(client: OwnerClient, output: Output, id: string): Promise<void> {
  const view = await client.call<ApprovalView>('GET', pathOf(id))
  output.result(view, approvalCard(view, columns()))
}

/**
 * Shows the card, then asks; without a terminal nothing but the hash that the card was read with counts.
 *
 * @param terminal undefined where nobody can read and answer
 * @throws {UsageError} when nothing was approved because nobody said so
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
      `Expected --hash with the decision_hash of the card that was read: tollgate vault approvals ${id} shows it. Nothing was approved.`,
    )
  const shown = await client.call<ApprovalView>('GET', pathOf(id))
  if (terminal !== undefined) output.say(approvalCard(shown, terminal.columns))
  if (shown.status === 'pending' && hash !== undefined && hash !== shown.decision_hash)
    throw new UsageError(
      `Expected --hash ${shown.decision_hash}, the decision hash of ${id}; got another one. Nothing was approved.`,
    )
  // What is over is refused by the vault in its own words.
  const isOpen = shown.status === 'pending'
  const secondWord = isOpen && word === undefined ? await typedWord(shown, terminal) : word
  if (isOpen && hash === undefined && shown.second_word === null && terminal !== undefined) {
    const answer = await terminal.ask('Approve exactly this? [y/N] ')
    if (!/^y(?:es)?$/i.test(answer)) throw new UsageError('Nothing was approved.')
  }
  const approved = await client.call<ApprovalView>('POST', `${pathOf(id)}/approve`, {
    decision_hash: hash ?? shown.decision_hash,
    ...(secondWord !== undefined && { second_word: secondWord }),
  })
  output.result(approved, `Approved for ${approved.agent}.`)
}

/** The second word typed is the answer to the question whether to approve, too. */
async function typedWord(
  { second_word }: ApprovalView,
  terminal: OwnersTerminal | undefined,
): Promise<string | undefined> {
  if (second_word === null) return undefined
  const why =
    second_word === 'blind'
      ? 'Not everything that this does is understood.'
      : 'Not everything that this signs, sends or stores is shown.'
  if (terminal === undefined)
    throw new UsageError(`${why} Expected --word ${second_word} beside --hash. Nothing was approved.`)
  const typed = await terminal.ask(`${why} To approve it all the same, type ${second_word}: `)
  if (typed !== second_word) throw new UsageError('Nothing was approved.')
  return typed
}

/** Shows the card and refuses what it asks for; nobody is asked, because nothing is given away. */
export async function deny(client: OwnerClient, output: Output, id: string): Promise<void> {
  const shown = await client.call<ApprovalView>('GET', pathOf(id))
  output.say(approvalCard(shown, columns()))
  const denied = await client.call<ApprovalView>('POST', `${pathOf(id)}/deny`, {})
  output.result(denied, `Denied to ${denied.agent}.`)
}

/** Some terminals say that they are 0 columns wide. */
const columns = (): number => process.stdout.columns || 80

/** A person reads standard output and types into standard input, or there is nobody. */
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
