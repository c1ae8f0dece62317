import type { Command } from 'commander'
import { withSuffix } from '../../admin-api/links/linkFields.ts'
import { jsonOption, outputOf } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { callGateway } from '../runtime/callGateway.ts'
import { type GatewayFlags, gatewayUrl, takesGateway } from '../runtime/gatewayUrl.ts'
import { type AccessFlags, accessOf, paidForOption, signedInOption } from './linkAccess.ts'
import { registerLinkChange } from './linkChange.ts'
import { registerLinkImport } from './linkImport.ts'
import { registerLinkList, shownPrice } from './linkList.ts'
import { registerLinkShow } from './linkShow.ts'
import { readPriceRules } from './priceRules.ts'

interface LinkFlags extends GatewayFlags, AccessFlags {
  readonly title?: string
  readonly slug?: string
  readonly description?: string
  readonly price?: string
  readonly priceRules?: string
  readonly settle?: string
  readonly raw?: true
  readonly public?: true
  readonly json?: true
  readonly method?: string[]
}

export function registerLink(program: Command): void {
  const link = program.command('link').description('Create, list, change and delete the links of a store.')
  takesGateway(
    link
      .command('add')
      .alias('create')
      .description('Create a link to an API.')
      .argument('<url>', 'URL of the API to which the gateway forwards calls'),
  )
    .option('--price <usdc>', 'price per call in USDC, such as 0.01, or 0 for free (default: 0)')
    .option('--price-rules <file>', 'JSON file with prices by request or a price by use, instead of --price')
    .option('--slug <slug>', "last part of the link's address (default: made from the title, or random)")
    .option('--title <text>', 'title for buyers (default: the slug)')
    .option('--description <text>', 'description for buyers')
    .option('--method <name...>', 'HTTP methods that the link accepts (default: all)')
    .option(
      '--settle <when>',
      "after: charge the buyer after the API's response; before: charge before the call, for streams and long responses (default: after)",
    )
    .option(
      '--raw',
      "return the API's response unchanged, with the purchase id and the review token in headers",
    )
    .option(...paidForOption)
    .option(...signedInOption)
    .option('--public', 'list the link in the marketplace')
    .option(...jsonOption)
    .addHelpText(
      'after',
      `
The store's API key is read from TOLLGATE_API_KEY. A paid link is saved only if its API responds.

Example:
  tollgate link add https://api.example.com/weather --price 0.01 --slug weather`,
    )
    .action(async (url: string, flags: LinkFlags) => {
      const output = outputOf(flags)
      try {
        const saved = await addLink(url, flags, process.env['TOLLGATE_API_KEY'])
        const price = saved.price === '0' ? 'free' : `${shownPrice(saved)} ${saved.currency} a call`
        output.result(
          saved,
          `${saved.privateUrl ?? saved.fullUrl}  (${price})\n\nTry it: curl -i ${saved.privateUrl ?? saved.fullUrl}`,
        )
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
  registerLinkList(link)
  registerLinkShow(link)
  registerLinkImport(link)
  registerLinkChange(link)
}

interface SavedLink {
  readonly fullUrl: string
  readonly privateUrl: string | null
  readonly price: string | object
  readonly priceMin?: string
  readonly priceMax?: string
  readonly currency: string
}

async function addLink(url: string, flags: LinkFlags, apiKey: string | undefined): Promise<SavedLink> {
  // `localhost:3000` parses as a URL with the scheme `localhost:`.
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw new UsageError(
      `Expected an address such as https://api.example.com/weather, got ${JSON.stringify(url)}.`,
    )
  const { description, settle, raw, method } = flags
  if (flags.price !== undefined && flags.priceRules !== undefined)
    throw new UsageError('Expected --price or --price-rules, got both.')
  const price = flags.priceRules === undefined ? (flags.price ?? '0') : readPriceRules(flags.priceRules)
  // Buyers see the title in every offer, so a default title is random and does not reveal the API's address.
  const slug = flags.slug ?? (flags.title === undefined ? withSuffix('link') : undefined)
  const title = flags.title ?? slug
  const access = accessOf(flags)
  const body = {
    url,
    title,
    price,
    isPublic: flags.public === true,
    ...(slug !== undefined && { slug }),
    ...(description !== undefined && { description }),
    ...(settle !== undefined && { settle }),
    ...(access !== undefined && { access }),
    ...(raw && { responseMode: 'raw' }),
    ...(method !== undefined && { methods: method }),
  }
  return callGateway(gatewayUrl(flags), '/api/v1/links', body, apiKey)
}
