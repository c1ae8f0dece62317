import type { Command } from 'commander'
import { UsageError } from '../output/exitCodes.ts'
import { asOwner, type CommonFlags, withCommonFlags } from './flags.ts'
import { readSecretFile } from './readSecretFile.ts'

interface SetFlags extends CommonFlags {
  readonly file: string
}

/** `tollgate vault policies …` */
export function registerPolicies(vault: Command): void {
  const policies = vault.command('policies').description('Rules by which the vault decides without asking.')

  withCommonFlags(policies.command('set'))
    .description('Store the rules of an agent, of agents without any (default), or of all together (vault).')
    .argument('<id>', 'name or id of an agent, default, or vault')
    .requiredOption('--file <file>', 'the rules as JSON; - for standard input')
    .addHelpText(
      'after',
      `
Example of an agent's rules:
  {"assets":[{"chain":"base","symbol":"USDC","perTransaction":"5","perDay":"20","autoApproveUpTo":"1"}],
   "recipients":"any"}

Example of the vault's:
  {"limits":[{"chain":"base","symbol":"USDC","perDay":"50"}]}`,
    )
    .action((id: string, flags: SetFlags) =>
      asOwner(flags, async (client, output) => {
        const policy = parse(readSecretFile(flags.file, () => undefined))
        const set = await client.call<{ id: string }>('PUT', pathOf(id), policy)
        output.result(set, `The rules of ${id} are stored.`)
      }),
    )

  withCommonFlags(policies.command('list'))
    .description('Show all rules.')
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const answer = await client.call<{ policies: { id: string; policy: unknown }[] }>(
          'GET',
          '/v1/vault/policies',
        )
        output.rows(
          answer.policies,
          [
            { title: 'Id', value: ({ id }) => id },
            { title: 'Rules', value: ({ policy }) => JSON.stringify(policy) },
          ],
          'No rules yet: every signature is asked for.',
        )
      }),
    )

  withCommonFlags(policies.command('delete'))
    .description('Remove rules; what they covered is asked for again.')
    .argument('<id>', 'as for set')
    .action((id: string, flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const answer = await client.call<{ deleted: boolean }>('DELETE', pathOf(id))
        output.result(answer, answer.deleted ? `The rules of ${id} are gone.` : 'There were none.')
      }),
    )
}

const pathOf = (id: string): string => `/v1/vault/policies/${encodeURIComponent(id)}`

function parse(text: string): object {
  try {
    return JSON.parse(text)
  } catch {
    throw new UsageError('Expected the rules as JSON.')
  }
}
