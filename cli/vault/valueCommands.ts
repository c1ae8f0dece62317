import type { Command } from 'commander'
import { UsageError } from '../output/exitCodes.ts'
import { asOwner, type CommonFlags, withCommonFlags } from './flags.ts'
import { readSecretFile } from './readSecretFile.ts'

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
    .description('Store a value, or a credential and where it may be used.')
    .argument('<scope>', 'identity.name, credentials.api.github, custom.notes.today …')
    .option('--file <file>', 'where the value is (default: standard input)')
    .option('--origin <url>', 'a credential: the server it is for, such as https://api.example.com')
    .option('--method <name>', 'a credential: a method that may be used; repeat for more', collect, [])
    .option('--path <pattern>', 'a credential: /v1/items, /v1/* or /v1/**; repeat for more', collect, [])
    .option('--header <name>', 'a credential: the header it goes into (default: Authorization: Bearer)')
    .option('--query <name>', 'a credential: the query parameter it goes into')
    .option('--basic', 'a credential: user:password for Basic')
    .option(
      '--allow-private <range>',
      'a credential: a range that is not public, such as 127.0.0.1/32',
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
        const answer = await client.call<{ value: string }>('POST', '/v1/vault/read', { scope })
        output.result(answer, answer.value)
      }),
    )

  withCommonFlags(vault.command('delete'))
    .description('Delete a stored value for good.')
    .argument('<scope>')
    .action((scope: string, flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const answer = await client.call<{ deleted: boolean }>('POST', '/v1/vault/delete', { scope })
        output.result(answer, answer.deleted ? `${scope} is gone.` : 'Nothing was stored there.')
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
    throw new UsageError('--method and --path say what may be used of a server: they go with --origin URL.')
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
