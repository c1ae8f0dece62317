import type { Command } from 'commander'
import type { PolicyView } from '../../vault/host/policyView.ts'
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

Fees of a chain's network have room by what may be spent there, and none on other chains. To say it yourself:
  "fees":[{"chain":"base","perTransaction":"0.0002","perDay":"0.001","autoApproveUpTo":"0.0001"}]

Example of the vault's:
  {"limits":[{"chain":"base","symbol":"USDC","perDay":"50"}],"fees":[{"chain":"base","perDay":"0.01"}]}`,
    )
    .action((id: string, flags: SetFlags) =>
      asOwner(flags, async (client, output) => {
        const policy = parse(
          readSecretFile(flags.file, () => undefined),
          flags.file,
        )
        const set = await client.call<PolicyView>('PUT', pathOf(id), policy)
        output.result(set, [`The rules of ${id} are stored.`, ...wordsOf(set)].join('\n'))
      }),
    )

  withCommonFlags(policies.command('list'))
    .description('Show all rules.')
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const answer = await client.call<{ policies: PolicyView[] }>('GET', '/v1/vault/policies')
        const { policies } = answer
        if (output.isJson || policies.length === 0)
          output.rows(policies, [], 'No rules yet: every signature is asked for.')
        for (const view of policies)
          output.say([view.name, ...wordsOf(view), JSON.stringify(view.policy)].join('\n  '))
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

  withCommonFlags(policies.command('reset-day'))
    .description("Let the budgets count for the clock's day, after the clock of this machine was ahead.")
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const answer = await client.call<{ reset: true }>('POST', '/v1/vault/policies/reset-day', {})
        output.result(answer, 'The budgets count for today. What was used before stays used today.')
      }),
    )
}

/** What may be spent, fees included, one sentence a line; what does not apply is said. */
function wordsOf({ policy, fees, without_scope }: PolicyView): string[] {
  const { assets, limits = [] } = policy as { assets?: readonly Amounts[]; limits?: readonly Amounts[] }
  const spending = (assets ?? limits).map((rule) => `${limitWords(rule, rule.symbol)} on ${rule.chain}`)
  const paying = fees.map((rule) => `${limitWords(rule, `${rule.symbol} of fees`)} on ${rule.chain}`)
  const idle = without_scope.map((chain) => `${chain} does not apply: the agent has no scope wallet.${chain}`)
  return [...spending, ...paying, ...idle]
}

interface Amounts {
  readonly chain: string
  readonly symbol: string
  readonly perTransaction?: string
  readonly perDay?: string
  readonly autoApproveUpTo?: string
  readonly recipient?: string
}

function limitWords(
  { perDay, perTransaction, autoApproveUpTo, recipient }: Omit<Amounts, 'chain' | 'symbol'>,
  what: string,
): string {
  const parts = [
    ...(perDay === undefined ? [] : [`up to ${perDay} ${what} a day`]),
    ...(perTransaction === undefined ? [] : [`up to ${perTransaction} ${what} at once`]),
    ...(autoApproveUpTo === undefined ? [] : [`${autoApproveUpTo} without asking`]),
    ...(recipient === undefined ? [] : [`to ${recipient}`]),
  ]
  return parts.join(', ')
}

const pathOf = (id: string): string => `/v1/vault/policies/${encodeURIComponent(id)}`

function parse(text: string, file: string): object {
  try {
    return JSON.parse(text)
  } catch (error) {
    // Never the parser's own words: they quote the file, which may be another one than was meant.
    const position = /at position (\d+)/.exec((error as Error).message)?.[1]
    const before = position === undefined ? [] : text.slice(0, Number(position)).split('\n')
    const place = position === undefined ? '' : `, line ${before.length}, column ${before.at(-1)!.length + 1}`
    throw new UsageError(`Expected the rules as JSON in ${file === '-' ? 'standard input' : file}${place}.`)
  }
}
