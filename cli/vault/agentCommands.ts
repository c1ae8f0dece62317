import type { Command } from 'commander'
import { nearMiss } from '../../core/config/check/nearMiss.ts'
import type { AgentView } from '../../vault/agents/agents.ts'
import type { PairingOffer, PairingSummary } from '../../vault/ports/pairings.ts'
import type { Output } from '../output/createOutput.ts'
import { UsageError, wholeNumber } from '../output/exitCodes.ts'
import { asOwner, type CommonFlags, withCommonFlags } from './flags.ts'
import type { OwnerClient } from './ownerClient.ts'
import { writeSecret } from './secretFiles.ts'

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

/**
 * Warns about unknown chains in scopes. The vault accepts such a scope, because the chain may be added later. Without the
 * warning, a misspelled chain would be noticed only when the agent uses it.
 */
async function warnOfChains(client: OwnerClient, output: Output, scopes: readonly string[]): Promise<void> {
  const { chains } = await client.call<{ chains: readonly string[] }>('GET', '/v1/capabilities')
  for (const scope of scopes) {
    const chain = /(?:^|:)wallet\.([^.*]+)$/.exec(scope)?.[1]
    if (chain === undefined || chains.includes(chain)) continue
    const meant = nearMiss(chain, chains)
    output.warn(
      `The vault does not offer the chain ${chain}, only ${chains.join(', ')}.${meant === undefined ? '' : ` Did you mean ${meant}?`}`,
    )
  }
}

/** `tollgate vault agents …` */
export function registerAgents(vault: Command): void {
  const agents = vault.command('agents').description('Manage the programs that may use the vault.')

  withCommonFlags(agents.command('add'))
    .description('Register an agent and print its token once.')
    .argument('<name>', 'name of the agent, which the log and every approval show')
    .requiredOption('--scopes <list>', 'scopes that the agent may use, separated by commas')
    .option('--rate <n>', 'maximum requests of the agent per minute (default: 120)')
    .option('--token-file <file>', 'write the token to a new file (mode 0600) instead of printing it')
    .addHelpText(
      'after',
      `
A scope without a prefix has its default meaning. Values may be read, and written when you agree each time. Credentials may be
used by calls and never read. Wallets may sign within your rules, and ask you if no rule applies. A scope may begin with
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
          return writeSecret(flags.tokenFile, output, async () => {
            const { token, ...agent } = await add()
            return {
              secret: token,
              shown: agent,
              name: 'token',
              warning: 'Any program that reads this file can act as this agent.',
            }
          })
        const added = await add()
        if (added.scopes.some((scope) => scope.includes('read:credentials.')))
          output.warn(
            'This agent may request the credentials themselves. If it may only use them in calls, the credentials never leave the vault.',
          )
        output.result(added, `${added.name}: ${added.token}\nThe token is not shown again.`)
      }),
    )

  withCommonFlags(agents.command('list'))
    .description('Show the registered agents.')
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const response = await client.call<{ agents: AgentView[] }>('GET', '/v1/vault/agents')
        output.rows(
          response.agents,
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
    .description("Change an agent's scopes or rate.")
    .argument('<name>', 'name or id of the agent')
    .option(
      '--scopes <list>',
      'all scopes that the agent may use from now on, separated by commas; replaces the current scopes',
    )
    .option('--rate <n>', "new maximum of the agent's requests per minute")
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
    .description('Resume an agent. Restoring a vault from a backup suspends all of its agents.')
    .argument('[name]', 'name or id of the agent')
    .option('--all', 'resume every suspended agent')
    .addHelpText(
      'after',
      `
A restored vault has no record of what an agent spent after the backup, or whether its token was changed or revoked then. Its
automatic approvals begin again with the budgets of the backup. Pairings are resumed with tollgate vault pair resume.`,
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
            'Money spent between the backup and the restore does not count in the budgets of that day. A token that was ' +
              'changed after the backup is the old token again. To change the token: tollgate vault agents rotate NAME.',
          )
        const text = resumed.map((agent) => `${agent.name} is resumed.`).join('\n')
        output.result({ agents: resumed }, text === '' ? 'No agent is suspended.' : text)
      }),
    )

  for (const [verb, description] of [
    ['revoke', 'Revoke an agent and cancel its open approvals.'],
    ['rotate', 'Give an agent a new token and print it once. The old token stops working.'],
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

interface NewPairingFlags extends CommonFlags {
  readonly agent: string
}

/** `tollgate vault pair …`: agents on other machines. */
export function registerPairings(vault: Command): void {
  const pair = vault
    .command('pair')
    .description('Pair agents on other machines (needs a vault with --relay).')

  withCommonFlags(pair.command('new'))
    .description(
      'Start to pair an agent on another machine: print the command to run there, with its one-time token.',
    )
    .argument('<service-id>', 'name for the agent service on the other machine')
    .requiredOption('--agent <name>', 'agent as which the paired service acts')
    .action((serviceId: string, flags: NewPairingFlags) =>
      asOwner(flags, async (client, output) => {
        const body = { service_id: serviceId, agent: flags.agent }
        const offer = await client.call<PairingOffer>('POST', '/v1/vault/pairings', body)
        output.result(offer, `${offer.command}\nThe command works once, until ${offer.expires_at}.`)
      }),
    )

  withCommonFlags(pair.command('list'))
    .description('Show the pairings. For a pairing that waits for your confirmation, show its four words.')
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const { pairings } = await client.call<{ pairings: PairingSummary[] }>('GET', '/v1/vault/pairings')
        output.rows(
          pairings,
          [
            { title: 'Id', value: ({ id }) => id, isWhole: true },
            { title: 'Service', value: ({ service_id }) => service_id },
            { title: 'State', value: ({ state }) => state },
            { title: 'Words', value: ({ phrase }) => phrase, isWhole: true },
          ],
          'No pairings yet.',
        )
      }),
    )

  withCommonFlags(pair.command('resume'))
    .description('Resume a pairing. Restoring a vault from a backup suspends all of its pairings.')
    .argument('[id]')
    .option('--all', 'resume every suspended pairing')
    .action((id: string | undefined, flags: CommonFlags & { readonly all?: true }) =>
      asOwner(flags, async (client, output) => {
        if ((id === undefined) === (flags.all === undefined))
          throw new UsageError('Expected the id of a pairing, or --all.')
        const ids =
          id === undefined
            ? (await client.call<{ pairings: PairingSummary[] }>('GET', '/v1/vault/pairings')).pairings
                .filter(({ state }) => state === 'suspended')
                .map((pairing) => pairing.id)
            : [id]
        for (const one of ids)
          await client.call<object>('PATCH', `/v1/vault/pairings/${encodeURIComponent(one)}`, {
            suspended: false,
          })
        const text = ids.map((one) => `${one} is resumed.`).join('\n')
        output.result({ ids }, text === '' ? 'No pairing is suspended.' : text)
      }),
    )

  withCommonFlags(pair.command('rotate-key'))
    .description(
      'Give the vault a new encryption key for agents on other machines. Paired proxies switch to the new key on their own.',
    )
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const { generation } = await client.call<{ generation: number }>(
          'POST',
          '/v1/vault/pairings/rotate-key',
          {},
        )
        output.result({ generation }, `Key ${generation} is now in use.`)
      }),
    )

  for (const [verb, description] of [
    ['confirm', 'Confirm that both sides show the same four words.'],
    ['refuse', 'Refuse a pairing whose four words differ on the two sides.'],
    ['revoke', 'End a pairing.'],
  ] as const) {
    withCommonFlags(pair.command(verb))
      .description(description)
      .argument('<id>')
      .action((id: string, flags: CommonFlags) =>
        asOwner(flags, async (client, output) => {
          const path = `/v1/vault/pairings/${encodeURIComponent(id)}/${verb}`
          output.result(await client.call<object>('POST', path, {}), `${id}: done.`)
        }),
      )
  }
}
