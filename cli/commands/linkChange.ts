import { type Command, Option } from 'commander'
import { jsonOption, type Output, outputOf } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { askGateway } from '../runtime/askGateway.ts'
import { type GatewayFlags, gatewayUrl, takesGateway } from '../runtime/gatewayUrl.ts'
import { headersOf } from './linkImport.ts'
import { type ListedLink, linkColumns } from './linkList.ts'

interface SetFlags extends GatewayFlags {
  readonly url?: string
  readonly price?: string
  readonly title?: string
  readonly description?: string
  readonly slug?: string
  readonly method?: string[]
  readonly settle?: string
  readonly response?: string
  readonly public?: boolean
  readonly header?: string[] | false
  readonly json?: true
}

export function registerLinkChange(link: Command): void {
  takesGateway(
    link
      .command('set')
      .alias('update')
      .description('Change a link: what is named here, and nothing else.')
      .argument('<link>', 'its slug or id'),
  )
    .option('--url <url>', 'address that calls are forwarded to')
    .option('--price <usdc>', 'price of a call in USDC, such as 0.01; 0 is free')
    .option('--title <text>', 'what buyers see')
    .option('--description <text>', "what buyers see below it; '' takes it away")
    .option('--slug <slug>', 'last part of the address; the old one redirects for 30 days')
    .option('--method <name...>', 'take only these methods; all takes every one')
    .addOption(new Option('--settle <when>', 'when buyers are charged').choices(['after', 'before']))
    .addOption(
      new Option('--response <form>', "wrapped, or the API's bytes as they come").choices(['wrap', 'raw']),
    )
    .option(
      '--header <header...>',
      "sent with every call to the API, instead of those before: 'X-Key: …'; a new host in --url needs them again",
    )
    .option('--no-header', 'send none of them any more')
    .option('--public', 'list it in the marketplace')
    .option('--no-public', 'take it out of the marketplace')
    .option(...jsonOption)
    .addHelpText(
      'after',
      `${keyHelp}\n\nExample:\n  tollgate link set weather --price 0.02 --title "Weather of today"`,
    )
    .action((name: string, flags: SetFlags) =>
      run(flags, async (output, ask) => {
        const body = changesOf(flags)
        if (Object.keys(body).length === 0)
          throw new UsageError('Expected at least one field to change, such as --price 0.02.')
        const { id } = await linkNamed(name, ask)
        output.rows([await ask<ListedLink>(`/api/v1/links/${id}`, 'PATCH', body)], linkColumns)
      }),
    )
  takesGateway(
    link
      .command('delete')
      .alias('remove')
      .description('Take a link away: it answers no call any more. Its purchases stay in the ledger.')
      .argument('<link>', 'its slug or id'),
  )
    .option(...jsonOption)
    .addHelpText('after', keyHelp)
    .action((name: string, flags: GatewayFlags & { readonly json?: true }) =>
      run(flags, async (output, ask) => {
        const found = await linkNamed(name, ask)
        await ask(`/api/v1/links/${found.id}`, 'DELETE')
        output.rows([found], linkColumns)
        output.say(`Deleted the link ${found.slug}.`)
      }),
    )
}

const keyHelp = "\nThe store's API key is read from TOLLGATE_API_KEY."

type Ask = <T>(path: string, method?: 'PATCH' | 'DELETE', body?: object) => Promise<T>

async function run(
  flags: GatewayFlags & { readonly json?: true },
  work: (output: Output, ask: Ask) => Promise<void>,
): Promise<void> {
  const output = outputOf(flags)
  try {
    const gateway = gatewayUrl(flags)
    const key = process.env['TOLLGATE_API_KEY']
    await work(output, (path, method, body) => askGateway(gateway, path, body, key, method))
  } catch (error) {
    process.exitCode = output.fail(error)
  }
}

/** @throws {UsageError} when the store has no such link */
async function linkNamed(name: string, ask: Ask): Promise<ListedLink> {
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query = new URLSearchParams({ limit: '100', ...(cursor !== '' && { cursor }) })
    const page: { links: ListedLink[]; nextCursor: string | null } = await ask(`/api/v1/links?${query}`)
    const found = page.links.find(({ id, slug }) => slug === name || id === name)
    if (found !== undefined) return found
    cursor = page.nextCursor
  }
  throw new UsageError(`Expected the slug or id of a link, got ${name}. See: tollgate link list`)
}

function changesOf(flags: SetFlags): object {
  const { url, price, title, description, slug, settle, response, method, header } = flags
  const methods = method?.length === 1 && method[0]?.toLowerCase() === 'all' ? null : method
  const given = {
    url,
    price,
    title,
    description: description === '' ? null : description,
    slug,
    settle,
    responseMode: response,
    isPublic: flags.public,
    upstreamHeaders: header === false ? {} : header && headersOf(header),
    methods: methods?.map((one) => one.toUpperCase()) ?? methods,
  }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}
