import type { Command } from 'commander'
import { conditionText, isByUse, isQueried, measureText, type Pricing } from '../../core/domain/pricing.ts'
import { jsonOption, type Output } from '../output/createOutput.ts'
import type { Column } from '../output/table.ts'
import { type GatewayFlags, takesGateway } from '../runtime/gatewayUrl.ts'
import { keyHelp, linkNamed, run } from './linkChange.ts'
import { type ListedLink, linkColumns } from './linkList.ts'

interface ShownLink extends ListedLink {
  readonly url: string
  readonly fullUrl: string
  readonly privateUrl: string | null
}

export function registerLinkShow(link: Command): void {
  takesGateway(
    link
      .command('show')
      .description('Show a link and its prices.')
      .argument('<link>', 'slug or id of the link'),
  )
    .option(...jsonOption)
    .addHelpText('after', keyHelp)
    .action((name: string, flags: GatewayFlags & { readonly json?: true }) =>
      run(flags, async (output, callAdmin) => {
        const { id } = await linkNamed(name, callAdmin)
        show(await callAdmin<ShownLink>(`/api/v1/links/${id}`), output)
      }),
    )
}

function show(link: ShownLink, output: Output): void {
  output.rows([link], linkColumns)
  if (output.isJson) return
  output.say(`\nAddress: ${link.privateUrl ?? link.fullUrl}\nForwards to: ${link.url}`)
  if (typeof link.price === 'string') return
  output.say('')
  const pricing = link.price as Pricing
  if (isQueried(pricing))
    return output.say(
      `Price server: ${pricing.url}\nHighest price: ${pricing.max} USDC\nWithout a response of the server: ${refusedOr(pricing.fallback)}`,
    )
  if (isByUse(pricing))
    return output.say(
      `Charged: ${measureText(pricing.by)}, at most ${pricing.upTo} USDC\nIf the use is not known: ${pricing.otherwise}\nResponse: ${pricing.stream ? 'sent as it arrives, charged at its end' : 'sent after the charge'}`,
    )
  output.rows(
    [
      ...pricing.rules.map(({ when, price }, i) => ({
        rule: String(i + 1),
        request: conditionText(when),
        price,
      })),
      { rule: '', request: 'every other request', price: pricing.otherwise ?? 'refused' },
    ],
    priceColumns,
  )
}

const refusedOr = (price: string | null): string => (price === null ? 'the call is refused' : `${price} USDC`)

interface PriceRow {
  readonly rule: string
  readonly request: string
  readonly price: string
}

const priceColumns: readonly Column<PriceRow>[] = [
  { title: 'Rule', value: ({ rule }) => rule, align: 'right' },
  { title: 'Request', value: ({ request }) => request, isWhole: true },
  { title: 'USDC', value: ({ price }) => price, align: 'right' },
]
