import type { Command } from 'commander'
import type { PolicyView } from '../../vault/host/api/policiesApi.ts'
import { UsageError } from '../output/exitCodes.ts'
import { asOwner, type CommonFlags, withCommonFlags } from './flags.ts'
import { readSecretFile } from './secretFiles.ts'

interface SetFlags extends CommonFlags {
  readonly file: string
}

/** `tollgate vault policies …` */
export function registerPolicies(vault: Command): void {
  const policies = vault
    .command('policies')
    .description('Manage the rules by which the vault decides without asking.')

  withCommonFlags(policies.command('set'))
    .description(
      'Store the spending policy of one agent, of agents without their own policy (default), or of all agents together (vault).',
    )
    .argument('<id>', 'name or id of an agent, default, or vault')
    .requiredOption('--file <file>', 'file with the policy as JSON; - reads it from standard input')
    .addHelpText(
      'after',
      `
Example of an agent's rules:
  {"assets":[{"chain":"base","symbol":"USDC","perTransaction":"5","perDay":"20","autoApproveUpTo":"1"}],
   "recipients":"any"}

By default, the fee limits of a chain follow from its spending limits, and other chains allow no fees. To set them yourself:
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
    .description('Show all policies.')
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const response = await client.call<{ policies: PolicyView[] }>('GET', '/v1/vault/policies')
        const { policies } = response
        if (output.isJson || policies.length === 0)
          output.rows(policies, [], 'No rules are set yet, so you are asked about every signature.')
        for (const view of policies)
          output.say([view.name, ...wordsOf(view), JSON.stringify(view.policy)].join('\n  '))
      }),
    )

  withCommonFlags(policies.command('delete'))
    .description('Delete a policy. The vault asks you again about requests that the policy approved.')
    .argument('<id>', 'name or id of an agent, default, or vault')
    .action((id: string, flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const response = await client.call<{ deleted: boolean }>('DELETE', pathOf(id))
        output.result(response, response.deleted ? `The rules of ${id} are removed.` : 'No rules were set.')
      }),
    )

  withCommonFlags(policies.command('reset-day'))
    .description(
      "Make the budgets count for the clock's current day. Use it after the clock of this machine was ahead.",
    )
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const response = await client.call<{ reset: true }>('POST', '/v1/vault/policies/reset-day', {})
        output.result(response, 'The budgets now count for today. Amounts already used still count today.')
      }),
    )
}

/** The spending limits and fee limits, one sentence per line, including the limits that do not apply. */
function wordsOf({ policy, fees, without_scope }: PolicyView): string[] {
  const { assets, limits = [] } = policy as { assets?: readonly Amounts[]; limits?: readonly Amounts[] }
  const spending = (assets ?? limits).map((rule) => `${limitWords(rule, rule.symbol)} on ${rule.chain}`)
  const paying = fees.map((rule) => `${limitWords(rule, `${rule.symbol} of fees`)} on ${rule.chain}`)
  const idle = without_scope.map(
    (chain) => `The rules for ${chain} do not apply, because the agent has no scope wallet.${chain}`,
  )
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
    ...(perDay === undefined ? [] : [`up to ${perDay} ${what} per day`]),
    ...(perTransaction === undefined ? [] : [`up to ${perTransaction} ${what} per transaction`]),
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
    // The parser's own message quotes the file, which may be the wrong one, so it is not used.
    const position = /at position (\d+)/.exec((error as Error).message)?.[1]
    const before = position === undefined ? [] : text.slice(0, Number(position)).split('\n')
    const location =
      position === undefined ? '' : `, line ${before.length}, column ${before.at(-1)!.length + 1}`
    throw new UsageError(
      `Expected the rules as JSON in ${file === '-' ? 'standard input' : file}${location}.`,
    )
  }
}

interface PutFlags extends CommonFlags {
  readonly file?: string
  readonly origin?: string
  readonly method: string[]
  readonly path: string[]
  readonly header?: string
  readonly query?: string
  readonly basic?: boolean
  readonly allowPrivate: string[]
}

const collect = (text: string, before: string[]): string[] => [...before, text]

/** `tollgate vault put`, `get`, `delete`. */
export function registerValues(vault: Command): void {
  withCommonFlags(vault.command('put'))
    .description('Store a value, or a credential with the API calls for which agents may use it.')
    .argument(
      '<scope>',
      'scope of the value, such as identity.name, credentials.api.github or custom.notes.today',
    )
    .option('--file <file>', 'file with the value (default: standard input)')
    .option(
      '--origin <url>',
      'credential: server to which the vault may send it, such as https://api.example.com',
    )
    .option('--method <name>', 'credential: HTTP method that agents may use; repeatable', collect, [])
    .option(
      '--path <pattern>',
      'credential: path that agents may call, such as /v1/items, /v1/* or /v1/**; repeatable',
      collect,
      [],
    )
    .option(
      '--header <name>',
      'credential: header in which the vault sends it (default: Authorization: Bearer)',
    )
    .option('--query <name>', 'credential: query parameter in which the vault sends it')
    .option('--basic', 'credential: user:password, which the vault sends as Basic authentication')
    .option(
      '--allow-private <range>',
      'credential: private address range of the server, such as 127.0.0.1/32',
      collect,
      [],
    )
    .addHelpText(
      'after',
      `
Examples:
  printf 'Ada Lovelace' | tollgate vault put identity.name
  tollgate vault put credentials.api.github --file token.txt --origin https://api.github.com --method GET --path '/**'`,
    )
    .action((scope: string, flags: PutFlags) =>
      asOwner(flags, async (client, output) => {
        const value = readSecretFile(flags.file ?? '-', (text) => output.warn(text))
        const settings = settingsOf(flags)
        const stored = await client.call<Stored>('POST', '/v1/vault/write', {
          scope,
          value,
          ...(Object.keys(settings).length > 0 && { settings }),
        })
        for (const warning of stored.warnings ?? []) output.warn(warning)
        output.result(
          stored,
          `${stored.scope} is ${stored.created ? 'stored' : 'replaced'}, version ${stored.version}.`,
        )
      }),
    )

  withCommonFlags(vault.command('get'))
    .description('Print a stored value.')
    .argument('<scope>')
    .action((scope: string, flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const response = await client.call<{ value: string }>('POST', '/v1/vault/read', { scope })
        output.result(response, response.value)
      }),
    )

  withCommonFlags(vault.command('delete'))
    .description('Delete a stored value permanently.')
    .argument('<scope>')
    .action((scope: string, flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const response = await client.call<{ deleted: boolean }>('POST', '/v1/vault/delete', { scope })
        output.result(
          response,
          response.deleted ? `${scope} is deleted.` : 'Nothing was stored under this scope.',
        )
      }),
    )
}

interface Stored {
  readonly scope: string
  readonly created: boolean
  readonly version: number
  readonly warnings?: readonly string[]
}

function settingsOf(flags: PutFlags): Record<string, unknown> {
  const { origin, method, path, header, query, basic, allowPrivate } = flags
  if (origin === undefined && method.length + path.length > 0)
    throw new UsageError('--method and --path limit the calls to a server. Add --origin URL.')
  const rule = origin && {
    origin,
    methods: method.length > 0 ? method : ['GET'],
    paths: path.length > 0 ? path : ['/**'],
  }
  const inject =
    header !== undefined
      ? { kind: 'header', name: header }
      : query !== undefined
        ? { kind: 'query', name: query }
        : basic === true
          ? { kind: 'basic' }
          : undefined
  return {
    ...(rule && { rules: [rule] }),
    ...(inject && { inject }),
    ...(allowPrivate.length > 0 && { allow_private: allowPrivate }),
  }
}
