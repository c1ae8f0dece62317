import { type Command, Option } from 'commander'
import { linkStates } from '../../core/domain/link.ts'
import { priceText } from '../../core/domain/pricing.ts'
import { createOutput } from '../output/createOutput.ts'
import type { Progress } from '../output/progress.ts'
import type { Column } from '../output/table.ts'
import { callGateway } from '../runtime/callGateway.ts'
import { type GatewayFlags, gatewayUrl, takesGateway } from '../runtime/gatewayUrl.ts'

interface ListFlags extends GatewayFlags {
  readonly json?: true
  readonly search?: string
  readonly state?: string
}

interface LinkPage {
  readonly links: readonly ListedLink[]
  readonly nextCursor: string | null
}

/** The fields of a link that the command shows. */
export interface ListedLink {
  readonly id: string
  readonly slug: string
  readonly title: string
  /** An object if the price depends on the request. */
  readonly price: string | object
  readonly priceMin?: string
  readonly priceMax?: string
  readonly methods: readonly string[]
  readonly isPublic: boolean
  readonly isStealth: boolean
  readonly suspension: object | null
}

export function registerLinkList(link: Command): void {
  takesGateway(link.command('list').description('List the links of the store.'))
    .option(
      '--search <words>',
      'list only links that have all of these words in title, slug, address or tags',
    )
    .addOption(new Option('--state <state>', 'list only links in this state').choices(linkStates))
    .option('--json', 'print one JSON object per line, even on a terminal')
    .addHelpText('after', "\nThe store's API key is read from TOLLGATE_API_KEY.")
    .action(async ({ json, search, state, ...flags }: ListFlags) => {
      const output = createOutput({ stdout: process.stdout, stderr: process.stderr, json, env: process.env })
      let progress: Progress | undefined
      try {
        const gateway = gatewayUrl(flags)
        const key = process.env['TOLLGATE_API_KEY']
        const links: ListedLink[] = []
        progress = output.progress('Reading the links')
        for (let cursor: string | null = ''; cursor !== null; ) {
          const given = Object.entries({ q: search, state, cursor: cursor || undefined, limit: '100' })
          const query = new URLSearchParams(
            given.filter((one): one is [string, string] => one[1] !== undefined),
          )
          const page: LinkPage = await callGateway(gateway, `/api/v1/links?${query}`, undefined, key)
          links.push(...page.links)
          cursor = page.nextCursor
          progress.update(`Read ${links.length} links`)
        }
        progress.done()
        output.rows(
          links,
          linkColumns,
          search === undefined && state === undefined
            ? 'No links yet. Create one with: tollgate link add URL --price 0.01'
            : 'No links match.',
        )
      } catch (error) {
        progress?.done()
        process.exitCode = output.fail(error)
      }
    })
}

export const linkColumns: readonly Column<ListedLink>[] = [
  { title: 'Link', value: ({ slug }) => slug, isWhole: true },
  { title: 'Price', value: shownPrice, align: 'right' },
  { title: 'Methods', value: ({ methods }) => methods.join(' ') || 'all' },
  { title: 'Visibility', value: shownOf },
  { title: 'Title', value: ({ title }) => title },
]

/** `0.01`, or `from 0.01 to 0.05` if the price depends on the request. */
export function shownPrice({
  price,
  priceMin = '',
  priceMax = '',
}: Pick<ListedLink, 'price' | 'priceMin' | 'priceMax'>): string {
  return typeof price === 'string' ? price : priceText({ price: priceMin, priceMax })
}

/** Which buyers can use the link, in one word. */
export function shownOf({ suspension, isStealth, isPublic }: ListedLink): string {
  if (suspension !== null) return 'suspended'
  if (isStealth) return 'stealth'
  return isPublic ? 'public' : 'unlisted'
}
