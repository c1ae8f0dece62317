import type { FastifyInstance } from 'fastify'
import type { Asset } from '../../core/domain/asset.ts'
import { type Payout, payoutFor } from '../../core/domain/link.ts'
import { type AtomicAmount, formatAmount } from '../../core/domain/money.ts'
import { chainNameOf, familyOf } from '../../core/domain/network.ts'
import type { FeeMonth } from '../../core/ports/store/fees.ts'
import type { Api } from '../deps.ts'
import { callerOf } from '../http/callers.ts'
import { exactly, field, listOf, ok, prefersCsv, respond, success, toCsv } from '../http/responses.ts'

const unit = {
  currency: field.text(),
  chain: { enum: ['base', 'solana'] },
  network: field.text('CAIP-2.'),
  asset: field.text(),
}

/** One month in one currency. Amounts are decimal strings in `currency`. */
const feeMonthSchema = exactly({
  month: field.text('The month in UTC, such as `2026-11`.'),
  ...unit,
  sales: field.count,
  salesAmount: field.text('The total that buyers paid in this month.'),
  fees: field.text("The operator's fee for the sales of this month."),
  refunds: field.count,
  refundedAmount: field.text('The total that was refunded in this month, also for earlier sales.'),
  feesReturned: field.text("The operator's fees that you no longer owe because of refunds in this month."),
  balance: field.text('`fees` minus `feesReturned`. Negative if `feesReturned` is larger.'),
  paid: field.text('The total that you paid to the operator in this month, for this month and other months.'),
})

/** The amounts owed now, over all months. */
const feesOwedSchema = exactly({
  ...unit,
  amount: field.text(
    'The fees that you owe. Negative if you paid more than you owe. Then the difference pays future fees.',
  ),
  payable: {
    ...field.flag,
    description:
      'True if you can create an invoice for these fees, because the operator has a wallet on this network.',
  },
})

const toFeeMonth = (one: FeeMonth) => {
  const amount = (atomic: bigint) => formatAmount(atomic, one.decimals, 2)
  return {
    month: one.month,
    ...unitOf(one),
    sales: one.sales,
    salesAmount: amount(one.salesAtomic),
    fees: amount(one.feesAtomic),
    refunds: one.refunds,
    refundedAmount: amount(one.refundedAtomic),
    feesReturned: amount(one.returnedAtomic),
    balance: amount(one.feesAtomic - one.returnedAtomic),
    paid: amount(one.paidAtomic),
  }
}

type FeeMonthView = ReturnType<typeof toFeeMonth>

/** The amount owed in one token, over all months. */
export interface OwedFees extends Pick<FeeMonth, 'network' | 'asset' | 'symbol' | 'decimals'> {
  /** Negative if more was paid than is owed. */
  readonly owedAtomic: AtomicAmount
}

/** Adds up the balances of the months, by network and asset. */
export function feesOwed(months: readonly FeeMonth[]): OwedFees[] {
  const byToken = Map.groupBy(months, tokenOf)
  return [...byToken.values()].map((of) => {
    const { network, asset, symbol, decimals } = of[0]!
    const owedAtomic = of.reduce(
      (sum, { feesAtomic, returnedAtomic, paidAtomic }) => sum + feesAtomic - returnedAtomic - paidAtomic,
      0n,
    )
    return { network, asset, symbol, decimals, owedAtomic }
  })
}

/** A key that is equal for the same token with the same decimals. */
export const tokenOf = ({ network, asset, decimals }: Pick<FeeMonth, 'network' | 'asset' | 'decimals'>) =>
  [network, network.startsWith('eip155:') ? asset.toLowerCase() : asset, decimals].join()

/** A key of a token that does not depend on its decimals. EVM addresses are equal in upper and lower case. */
export const tokenNameOf = ({ network, asset }: Pick<FeeMonth, 'network' | 'asset'>): string =>
  `${network}/${familyOf(network) === 'solana' ? asset : asset.toLowerCase()}`

/**
 * The amount owed in each token now. The chain counts in smallest units, regardless of the configured decimals. So sales and
 * payments add up to one debt, even if the decimals were changed in between.
 *
 * @param assets as configured now, for the symbol and decimals of the result
 */
export function owedByToken(months: readonly FeeMonth[], assets: readonly Asset[]): OwedFees[] {
  return [...Map.groupBy(feesOwed(months), tokenNameOf)].map(([name, of]) => {
    const configured = assets.find(({ network, address: asset }) => tokenNameOf({ network, asset }) === name)
    const { network, asset } = of[0]!
    const { symbol, decimals } = configured ?? of[0]!
    return { network, asset, symbol, decimals, owedAtomic: of.reduce((sum, one) => sum + one.owedAtomic, 0n) }
  })
}

/** @param payTo the operator's wallets */
const toOwed = (one: OwedFees, payTo: Payout) => ({
  ...unitOf(one),
  amount: formatAmount(one.owedAtomic, one.decimals, 2),
  payable: one.owedAtomic > 0n && payoutFor(payTo, one.network) !== null,
})

const unitOf = ({ symbol, network, asset }: Pick<FeeMonth, 'symbol' | 'network' | 'asset'>) => ({
  currency: symbol,
  chain: chainNameOf(network),
  network,
  asset,
})

const month = { type: 'string', pattern: '^\\d{4}-(0[1-9]|1[0-2])$' } as const

const statementQuery = {
  type: 'object',
  properties: {
    from: {
      ...month,
      description: 'The first month to list, such as 2026-01. Default: the month of the first sale.',
    },
    to: { ...month, description: 'The last month to list. Default: the current month.' },
  },
} as const

const csvColumns = [
  'month',
  'currency',
  'chain',
  'network',
  'asset',
  'sales',
  'salesAmount',
  'fees',
  'refunds',
  'refundedAmount',
  'feesReturned',
  'balance',
  'paid',
] as const satisfies readonly (keyof FeeMonthView)[]

/** `GET /api/v1/fees` returns the fees that the caller's store owes the platform, by month. They come from the ledger. */
export function feesRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: { from?: string; to?: string } }>(
    '/api/v1/fees',
    {
      schema: {
        summary: 'Read the fee statements',
        description:
          "Lists the sales, the refunds and the operator's fees for each month and currency, newest first. `owed` always covers all months. With Accept: text/csv, the response is a table of the months.",
        querystring: statementQuery,
        response: respond(
          { 200: success(exactly({ months: listOf(feeMonthSchema), owed: listOf(feesOwedSchema) })) },
          [400, 401, 429],
        ),
      },
    },
    async (request, reply) => {
      const { from = '', to = '9999-12' } = request.query
      const all = await api.fees.months(callerOf(request).store.id)
      const months = all.filter((one) => one.month >= from && one.month <= to).map(toFeeMonth)
      reply.header('vary', 'Accept')
      if (!prefersCsv(request.headers.accept))
        return ok({ months, owed: owedByToken(all, api.assets).map((one) => toOwed(one, api.feesPayTo)) })
      return reply
        .type('text/csv; charset=utf-8; header=present')
        .header('content-disposition', 'attachment; filename="fees.csv"')
        .send(toCsv(csvColumns, months))
    },
  )
}
