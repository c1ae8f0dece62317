import { type Command, Option } from 'commander'
import { jsonOption, type Output, outputOf } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { callGateway } from '../runtime/callGateway.ts'
import { type GatewayFlags, gatewayUrl, takesGateway } from '../runtime/gatewayUrl.ts'
import { type AccessFlags, accessOf, paidForOption, signedInOption } from './linkAccess.ts'
import { headersOf } from './linkImport.ts'
import { type ListedLink, linkColumns } from './linkList.ts'
import { readPriceRules } from './priceRules.ts'

interface SetFlags extends GatewayFlags, AccessFlags {
  readonly url?: string
  readonly price?: string
  readonly priceRules?: string
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
      .description('Change a link. Only the given options change.')
      .argument('<link>', 'slug or id of the link'),
  )
    .option('--url <url>', 'URL of the API to which the gateway forwards calls')
    .option('--price <usdc>', 'price per call in USDC, such as 0.01, or 0 for free')
    .option('--price-rules <file>', 'JSON file with prices by request or a price by use, instead of --price')
    .option('--title <text>', 'title for buyers')
    .option('--description <text>', "description for buyers; '' removes it")
    .option('--slug <slug>', "last part of the link's address; the old address redirects for 30 days")
    .option('--method <name...>', 'HTTP methods that the link accepts; all accepts every method')
    .addOption(new Option('--settle <when>', 'when buyers are charged').choices(['after', 'before']))
    .addOption(
      new Option(
        '--response <form>',
        "wrap adds the purchase id to the body; raw returns the API's response unchanged",
      ).choices(['wrap', 'raw']),
    )
    .option(
      '--header <header...>',
      "header for every call to the API, such as 'X-Key: …'; replaces all current headers; needed again if --url has a new host",
    )
    .option('--no-header', 'remove all headers that --header set')
    .option(...paidForOption)
    .option(...signedInOption)
    .option('--no-access', 'accept no signature of a wallet instead of a payment')
    .option('--public', 'list the link in the marketplace')
    .option('--no-public', 'remove the link from the marketplace')
    .option(...jsonOption)
    .addHelpText(
      'after',
      `${keyHelp}\n\nExample:\n  tollgate link set weather --price 0.02 --title "Weather of today"`,
    )
    .action((name: string, flags: SetFlags) =>
      run(flags, async (output, callAdmin) => {
        const body = changesOf(flags)
        if (Object.keys(body).length === 0)
          throw new UsageError('Expected at least one field to change, such as --price 0.02.')
        const { id } = await linkNamed(name, callAdmin)
        output.rows([await callAdmin<ListedLink>(`/api/v1/links/${id}`, 'PATCH', body)], linkColumns)
      }),
    )
  takesGateway(
    link
      .command('delete')
      .alias('remove')
      .description('Delete a link. The link accepts no more calls, and its purchases stay in the ledger.')
      .argument('<link>', 'slug or id of the link'),
  )
    .option(...jsonOption)
    .addHelpText('after', keyHelp)
    .action((name: string, flags: GatewayFlags & { readonly json?: true }) =>
      run(flags, async (output, callAdmin) => {
        const found = await linkNamed(name, callAdmin)
        await callAdmin(`/api/v1/links/${found.id}`, 'DELETE')
        output.rows([found], linkColumns)
        output.say(`Deleted the link ${found.slug}.`)
      }),
    )
}

export const keyHelp = "\nThe store's API key is read from TOLLGATE_API_KEY."

export type CallAdmin = <T>(path: string, method?: 'PATCH' | 'DELETE', body?: object) => Promise<T>

export async function run(
  flags: GatewayFlags & { readonly json?: true },
  work: (output: Output, callAdmin: CallAdmin) => Promise<void>,
): Promise<void> {
  const output = outputOf(flags)
  try {
    const gateway = gatewayUrl(flags)
    const key = process.env['TOLLGATE_API_KEY']
    await work(output, (path, method, body) => callGateway(gateway, path, body, key, method))
  } catch (error) {
    process.exitCode = output.fail(error)
  }
}

/** @throws {UsageError} if the store has no such link */
export async function linkNamed(name: string, callAdmin: CallAdmin): Promise<ListedLink> {
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query = new URLSearchParams({ limit: '100', ...(cursor !== '' && { cursor }) })
    const page: { links: ListedLink[]; nextCursor: string | null } = await callAdmin(`/api/v1/links?${query}`)
    const found = page.links.find(({ id, slug }) => slug === name || id === name)
    if (found !== undefined) return found
    cursor = page.nextCursor
  }
  throw new UsageError(`Expected the slug or id of a link, got ${name}. See: tollgate link list`)
}

function changesOf(flags: SetFlags): object {
  const { url, priceRules, title, description, slug, settle, response, method, header } = flags
  if (flags.price !== undefined && priceRules !== undefined)
    throw new UsageError('Expected --price or --price-rules, got both.')
  const price = priceRules === undefined ? flags.price : readPriceRules(priceRules)
  const methods = method?.length === 1 && method[0]?.toLowerCase() === 'all' ? null : method
  const given = {
    url,
    price,
    title,
    description: description === '' ? null : description,
    slug,
    settle,
    responseMode: response,
    access: accessOf(flags),
    isPublic: flags.public,
    upstreamHeaders: header === false ? {} : header && headersOf(header),
    methods: methods?.map((one) => one.toUpperCase()) ?? methods,
  }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}
