import type { Command } from 'commander'
import { formatAmount } from '../../core/domain/money.ts'
import type { BudgetLine } from '../../vault/host/api/insightApi.ts'
import type { ChargeReport } from '../../vault/host/chargeChecks.ts'
import { asOwner, asOwnerOfRunning, type CommonFlags, withCommonFlags } from './flags.ts'

interface KnownAsset {
  readonly id: string
  readonly chain: string
  readonly symbol: string
  readonly decimals: number
}

/** `tollgate vault budget …` */
export function registerBudget(vault: Command): void {
  const budget = vault
    .command('budget')
    .description('Show what agents spent today, and give back what payments did not cost.')

  withCommonFlags(budget.command('show'))
    .description('Show what an agent spent today, what was given back, and its limits.')
    .argument('<agent>', 'name or id of the agent')
    .action((agent: string, flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const path = `/v1/vault/budget?agent=${encodeURIComponent(agent)}`
        const { budget } = await client.call<{ budget: BudgetLine[] }>('GET', path)
        const { assets } = await client.call<{ assets: KnownAsset[] }>('GET', '/v1/vault/assets')
        const words = ({ asset }: BudgetLine, atomic: string | null): string | null => {
          if (atomic === null) return null
          const known = assets.find(({ id }) => id === asset.replace(/\/fees$/, ''))
          return known === undefined ? atomic : formatAmount(BigInt(atomic), known.decimals)
        }
        const used = ({ spent, reserved }: BudgetLine) => String(BigInt(spent) + BigInt(reserved))
        output.rows(
          budget,
          [
            { title: 'What', value: ({ asset }) => titleOf(asset, assets) },
            { title: 'Used today', value: (line) => words(line, used(line)) },
            { title: 'Given back today', value: (line) => words(line, line.given_back) },
            { title: 'Limit a day', value: (line) => words(line, line.per_day) },
            { title: 'Limit a transaction', value: (line) => words(line, line.per_transaction) },
          ],
          'The agent spent nothing today and has no limits.',
        )
      }),
    )

  withCommonFlags(budget.command('give-back'))
    .description(
      'Check now what the payments of today cost, and give the rest back to the budgets. A running vault also does this every minute. Needs evmRpc in the configuration.',
    )
    .action((flags: CommonFlags) =>
      asOwnerOfRunning(flags, async (client, output) => {
        const report = await client.call<ChargeReport>('POST', '/v1/vault/budget/give-back', {})
        for (const problem of report.problems) output.warn(problem)
        output.result(report, wordsOf(report))
      }),
    )
}

function titleOf(id: string, assets: readonly KnownAsset[]): string {
  const isFees = id.endsWith('/fees')
  const known = assets.find((one) => one.id === (isFees ? id.slice(0, -'/fees'.length) : id))
  if (known === undefined) return id
  return `${isFees ? 'fees in ' : ''}${known.symbol} on ${known.chain}`
}

function wordsOf({ given_back: given, open }: ChargeReport): string {
  const lines = given.map(({ agent, chain, amount, currency, transaction }) => {
    const proof = transaction === null ? '' : `, transaction ${transaction}`
    return `${amount} ${currency} on ${chain} given back to ${agent}${proof}`
  })
  const rest = `${open} ${open === 1 ? 'payment' : 'payments'} of today can still be charged or ${open === 1 ? 'is' : 'are'} not final yet.`
  return [...(lines.length === 0 ? ['Nothing was given back.'] : lines), rest].join('\n')
}
