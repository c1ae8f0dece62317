import type { Command } from 'commander'
import { nearMiss } from '../../core/config/check/nearMiss.ts'
import type { AgentView } from '../../vault/agents/agent.ts'
import type { Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { asOwner, type CommonFlags, withCommonFlags } from './flags.ts'
import { handOut } from './handOut.ts'
import type { OwnerClient } from './ownerClient.ts'
import { wholeNumber } from './wholeNumber.ts'

interface AddFlags extends CommonFlags {
  readonly scopes: string
  readonly rate?: string
  readonly tokenFile?: string
}

const list = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')

/** A chain may be offered later, so a scope for it is taken; a misspelt one would only be noticed by the agent. */
async function warnOfChains(client: OwnerClient, output: Output, scopes: readonly string[]): Promise<void> {
  const { chains } = await client.call<{ chains: readonly string[] }>('GET', '/v1/capabilities')
  for (const scope of scopes) {
    const chain = /(?:^|:)wallet\.([^.*]+)$/.exec(scope)?.[1]
    if (chain === undefined || chains.includes(chain)) continue
    const meant = nearMiss(chain, chains)
    output.warn(
      `The vault offers no chain ${chain}, only ${chains.join(', ')}.${meant === undefined ? '' : ` Did you mean ${meant}?`}`,
    )
  }
}

/** `tollgate vault agents …` */
export function registerAgents(vault: Command): void {
  const agents = vault.command('agents').description('Programs that may ask the vault.')

  withCommonFlags(agents.command('add'))
    .description('Let an agent in and print its token, once.')
    .argument('<name>', 'what the log and every question call it')
    .requiredOption('--scopes <list>', 'what it may use, separated by commas')
    .option('--rate <n>', 'requests a minute (default: 120)')
    .option('--token-file <file>', 'write the token to a new file (mode 0600) instead of printing it')
    .addHelpText(
      'after',
      `
A scope alone means what is usual for it: values may be read, and written when you agree each time; credentials may be
used by calls and never read; wallets may sign within your rules, and ask without any. Before it may stand
ask: or auto:, and read:, write:, call:, sign: or address:.

Examples:
  tollgate vault agents add shopper --scopes identity.name,wallet.base
  tollgate vault agents add writer --scopes auto:write:custom.notes.*,credentials.api.github`,
    )
    .action((name: string, flags: AddFlags) =>
      asOwner(flags, async (client, output) => {
        const scopes = list(flags.scopes)
        if (scopes.length === 0)
          throw new UsageError(
            'Expected --scopes with at least one scope, such as identity.name,wallet.base.',
          )
        const body = {
          name,
          scopes,
          ...(flags.rate !== undefined && { requests_per_minute: wholeNumber('--rate', flags.rate, 1, 1e8) }),
        }
        const add = async () => {
          const added = await client.call<AgentView & { token: string }>('POST', '/v1/vault/agents', body)
          await warnOfChains(client, output, added.scopes)
          return added
        }
        if (flags.tokenFile !== undefined)
          return handOut(flags.tokenFile, output, async () => {
            const { token, ...agent } = await add()
            return {
              secret: token,
              shown: agent,
              name: 'token',
              warning: 'Whoever has this file is this agent.',
            }
          })
        const added = await add()
        if (added.scopes.some((scope) => scope.includes('read:credentials.')))
          output.warn('This agent may ask to read credentials themselves. Calls keep them in the vault.')
        output.result(added, `${added.name}: ${added.token}\nThe token is not shown again.`)
      }),
    )

  withCommonFlags(agents.command('list'))
    .description('Show who may ask.')
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const answer = await client.call<{ agents: AgentView[] }>('GET', '/v1/vault/agents')
        output.rows(
          answer.agents,
          [
            { title: 'Agent', value: (agent) => agent.name, isWhole: true },
            { title: 'Scopes', value: (agent) => agent.scopes.join(', '), isWhole: true },
            { title: 'Revoked', value: (agent) => agent.revoked_at ?? '' },
            { title: 'State', value: (agent) => (agent.suspended ? 'suspended' : '') },
          ],
          'No agents yet.',
        )
      }),
    )

  withCommonFlags(agents.command('change'))
    .description('Give an agent other scopes, or another rate.')
    .argument('<name>', 'name or id of the agent')
    .option('--scopes <list>', 'all that it may use from now on, separated by commas')
    .option('--rate <n>', 'requests a minute')
    .action((name: string, flags: CommonFlags & Partial<AddFlags>) =>
      asOwner(flags, async (client, output) => {
        const change = {
          ...(flags.scopes !== undefined && { scopes: list(flags.scopes) }),
          ...(flags.rate !== undefined && { requests_per_minute: wholeNumber('--rate', flags.rate, 1, 1e8) }),
        }
        if (Object.keys(change).length === 0) throw new UsageError('Expected --scopes or --rate.')
        const agent = await client.call<AgentView>(
          'PATCH',
          `/v1/vault/agents/${encodeURIComponent(name)}`,
          change,
        )
        await warnOfChains(client, output, agent.scopes)
        output.result(agent, `${agent.name} may use ${agent.scopes.join(', ')}.`)
      }),
    )

  withCommonFlags(agents.command('resume'))
    .description('Let an agent go on that a restore suspended.')
    .argument('[name]', 'name or id of the agent')
    .option('--all', 'every agent that is suspended')
    .addHelpText(
      'after',
      `
After a restore it is not known what an agent spent since the backup, nor whether its token was changed or revoked. Its
automatic approvals begin again with the budgets of the backup. Pairings go on by tollgate vault pair resume.`,
    )
    .action((name: string | undefined, flags: CommonFlags & { readonly all?: true }) =>
      asOwner(flags, async (client, output) => {
        if ((name === undefined) === (flags.all === undefined))
          throw new UsageError('Expected the name of an agent, or --all.')
        const names =
          name === undefined
            ? (await client.call<{ agents: AgentView[] }>('GET', '/v1/vault/agents')).agents
                .filter((agent) => agent.suspended)
                .map((agent) => agent.id)
            : [name]
        const resumed: AgentView[] = []
        for (const one of names)
          resumed.push(
            await client.call<AgentView>('PATCH', `/v1/vault/agents/${encodeURIComponent(one)}`, {
              suspended: false,
            }),
          )
        if (resumed.length > 0)
          output.warn(
            'What was spent between the backup and the restore does not count in the budgets of that day. A token that was ' +
              'changed after the backup is the old one again: tollgate vault agents rotate NAME.',
          )
        const text = resumed.map((agent) => `${agent.name} goes on.`).join('\n')
        output.result({ agents: resumed }, text === '' ? 'No agent is suspended.' : text)
      }),
    )

  for (const [verb, description] of [
    ['revoke', 'Shut an agent out; its open questions are canceled.'],
    ['rotate', 'Give an agent a new token and print it, once; the old one ends.'],
  ] as const) {
    withCommonFlags(agents.command(verb))
      .description(description)
      .argument('<name>', 'name or id of the agent')
      .action((name: string, flags: CommonFlags) =>
        asOwner(flags, async (client, output) => {
          const path = `/v1/vault/agents/${encodeURIComponent(name)}/${verb}`
          const agent = await client.call<AgentView & { token?: string }>('POST', path, {})
          output.result(
            agent,
            agent.token === undefined ? `${agent.name} is revoked.` : `${agent.name}: ${agent.token}`,
          )
        }),
      )
  }
}
