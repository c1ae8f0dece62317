import type { Command } from 'commander'
import { shortHash } from '../../core/plugin/shortHash.ts'
import type { ApprovalView } from '../../vault/approvals/approval.ts'
import { asOwner, type CommonFlags, withCommonFlags } from './flags.ts'

interface ApproveFlags extends CommonFlags {
  readonly hash?: string
}

/** `tollgate vault approvals`, `approve` and `deny`. */
export function registerApprovals(vault: Command): void {
  withCommonFlags(vault.command('approvals'))
    .description('Show what agents are waiting for.')
    .option('--all', 'answered ones too')
    .action((flags: CommonFlags & { all?: boolean }) =>
      asOwner(flags, async (client, output) => {
        const path = flags.all === true ? '/v1/vault/approvals' : '/v1/vault/approvals?status=pending'
        const answer = await client.call<{ approvals: ApprovalView[] }>('GET', path)
        output.rows(
          answer.approvals,
          [
            { title: 'Id', value: ({ id }) => id },
            { title: 'Status', value: ({ status }) => status },
            { title: 'Agent', value: ({ agent }) => agent },
            { title: 'Decision', value: ({ decision_hash }) => shortHash(decision_hash) },
            { title: 'What', value: ({ effects }) => effects.join(' ') },
          ],
          'Nobody is waiting.',
        )
      }),
    )

  withCommonFlags(vault.command('approve'))
    .description('Allow what an agent asked for, exactly as it is shown.')
    .argument('<id>', 'the approval')
    .option('--hash <hex>', 'only if it is still the one with this decision hash')
    .action((id: string, flags: ApproveFlags) =>
      asOwner(flags, async (client, output) => {
        const path = `/v1/vault/approvals/${encodeURIComponent(id)}`
        const shown = await client.call<ApprovalView>('GET', path)
        const approved = await client.call<ApprovalView>('POST', `${path}/approve`, {
          decision_hash: flags.hash ?? shown.decision_hash,
        })
        output.result(approved, `Approved for ${approved.agent}:\n${textOf(approved)}`)
      }),
    )

  withCommonFlags(vault.command('deny'))
    .description('Refuse what an agent asked for.')
    .argument('<id>', 'the approval')
    .action((id: string, flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const path = `/v1/vault/approvals/${encodeURIComponent(id)}/deny`
        const denied = await client.call<ApprovalView>('POST', path, {})
        output.result(denied, `Denied to ${denied.agent}:\n${textOf(denied)}`)
      }),
    )
}

/** One line a sentence: a text with line ends of its own must not look like several. */
const textOf = ({ effects, warnings }: ApprovalView): string =>
  [...effects, ...warnings.map((text) => `Warning: ${text}`)]
    .map((text) => `  ${text.replaceAll(/\s+/g, ' ')}`)
    .join('\n')
