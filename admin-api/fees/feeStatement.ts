import type { Asset } from '../../core/domain/asset.ts'
import { type Payout, payoutFor } from '../../core/domain/link.ts'
import { type AtomicAmount, formatAmount } from '../../core/domain/money.ts'
import { chainNameOf, familyOf } from '../../core/domain/network.ts'
import type { FeeMonth } from '../../core/ports/store/fees.ts'
import { count, exactly, flag, text } from '../schema/answers.ts'

const unit = {
  currency: text(),
  chain: { enum: ['base', 'solana'] },
  network: text('CAIP-2.'),
  asset: text(),
}

/** One month in one currency. Amounts are decimal strings in `currency`. */
export const feeMonthSchema = exactly({
  month: text('`2026-11`, of UTC.'),
  ...unit,
  sales: count,
  salesAmount: text('What buyers paid.'),
  fees: text("The platform's share of these sales."),
  refunds: count,
  refundedAmount: text('What was paid back in this month, whenever it was sold.'),
  feesReturned: text('The share of that, which is not owed any more.'),
  balance: text('fees without feesReturned; below zero when more was returned.'),
  paid: text('What was paid to the operator in this month, for whatever was owed.'),
})

/** What is owed by now, over all months. */
export const feesOwedSchema = exactly({
  ...unit,
  amount: text('Below zero where more was paid than is owed: coming fees use it up.'),
  payable: { ...flag, description: 'There is a wallet of the operator to pay it to: ask for an invoice.' },
})

export const toFeeMonth = (one: FeeMonth) => {
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

export type FeeMonthView = ReturnType<typeof toFeeMonth>

/** What is owed in one token, over all months. */
export interface OwedFees extends Pick<FeeMonth, 'network' | 'asset' | 'symbol' | 'decimals'> {
  /** Below zero where more was paid than is owed. */
  readonly owedAtomic: AtomicAmount
}

/** Adds up what the months leave, by network and asset. */
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

/** The same text for the same token, counted in the same unit. */
export const tokenOf = ({ network, asset, decimals }: Pick<FeeMonth, 'network' | 'asset' | 'decimals'>) =>
  [network, network.startsWith('eip155:') ? asset.toLowerCase() : asset, decimals].join()

/** A token whatever its decimals are; an EVM address is the same in either case. */
export const tokenNameOf = ({ network, asset }: Pick<FeeMonth, 'network' | 'asset'>): string =>
  `${network}/${familyOf(network) === 'solana' ? asset : asset.toLowerCase()}`

/**
 * What is owed in each token by now. The chain counts in smallest units, whatever a configuration said of them: what was sold and
 * what was paid are one debt also where the decimals were configured anew between.
 *
 * @param assets as they are configured now, whose symbol and decimals it is shown in
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
export const toOwed = (one: OwedFees, payTo: Payout) => ({
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
