import type { Command } from 'commander'
import { withSuffix } from '../../admin-api/links/slugs.ts'
import { jsonOption, outputOf } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { askGateway } from '../runtime/askGateway.ts'
import { type GatewayFlags, gatewayUrl, takesGateway } from '../runtime/gatewayUrl.ts'
import { registerLinkChange } from './linkChange.ts'
import { registerLinkImport } from './linkImport.ts'
import { registerLinkList } from './linkList.ts'

interface LinkFlags extends GatewayFlags {
  readonly title?: string
  readonly slug?: string
  readonly description?: string
  readonly price: string
  readonly settle?: string
  readonly raw?: true
  readonly public?: true
  readonly json?: true
  readonly method?: string[]
}

export function registerLink(program: Command): void {
  const link = program.command('link').description('Links of a store.')
  takesGateway(
    link
      .command('add')
      .alias('create')
      .description('Put an API behind a link.')
      .argument('<url>', 'address that calls are forwarded to'),
  )
    .option('--price <usdc>', 'price of a call in USDC, such as 0.01; 0 is free', '0')
    .option('--slug <slug>', 'last part of the address; made from the title, or at random, when left out')
    .option('--title <text>', 'what buyers see (default: the slug)')
    .option('--description <text>', 'what buyers see below it')
    .option('--method <name...>', 'take only these methods (default: all)')
    .option('--settle <when>', 'charge after the answer, or before: for streams and long answers')
    .option('--raw', "hand the API's bytes over unwrapped, with the ids in headers")
    .option('--public', 'list it in the marketplace')
    .option(...jsonOption)
    .addHelpText(
      'after',
      `
The store's API key is read from TOLLGATE_API_KEY. A paid link is saved only when its API answers.

Example:
  tollgate link add https://api.example.com/weather --price 0.01 --slug weather`,
    )
    .action(async (url: string, flags: LinkFlags) => {
      const output = outputOf(flags)
      try {
        const saved = await addLink(url, flags, process.env['TOLLGATE_API_KEY'])
        const price = saved.price === '0' ? 'free' : `${saved.price} ${saved.currency} a call`
        output.result(
          saved,
          `${saved.privateUrl ?? saved.fullUrl}  (${price})\n\nTry it: curl -i ${saved.privateUrl ?? saved.fullUrl}`,
        )
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
  registerLinkList(link)
  registerLinkImport(link)
  registerLinkChange(link)
}

interface SavedLink {
  readonly fullUrl: string
  readonly privateUrl: string | null
  readonly price: string
  readonly currency: string
}

async function addLink(url: string, flags: LinkFlags, apiKey: string | undefined): Promise<SavedLink> {
  // `localhost:3000` is a URL, too: one of the scheme `localhost:`.
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw new UsageError(
      `Expected an address such as https://api.example.com/weather, got ${JSON.stringify(url)}.`,
    )
  const { description, price, settle, raw, method } = flags
  // Buyers see a title in every offer, so it never says where the API is.
  const slug = flags.slug ?? (flags.title === undefined ? withSuffix('link') : undefined)
  const title = flags.title ?? slug
  const body = {
    url,
    title,
    price,
    isPublic: flags.public === true,
    ...(slug !== undefined && { slug }),
    ...(description !== undefined && { description }),
    ...(settle !== undefined && { settle }),
    ...(raw && { responseMode: 'raw' }),
    ...(method !== undefined && { methods: method }),
  }
  return askGateway(gatewayUrl(flags), '/api/v1/links', body, apiKey)
}
