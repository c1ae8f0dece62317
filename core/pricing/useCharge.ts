import type { Asset } from '../domain/asset.ts'
import { convertPrice, parseAmount } from '../domain/money.ts'
import { isTollgateError } from '../errors/error.ts'
import { isObject, own, parseStrictJson } from '../x402/strictJson.ts'

/** What a call has cost. The unit decides how it is converted to the asset of the payment. */
export type UseCharge =
  /** Millionths of a dollar. */
  | { readonly unit: 'usd'; readonly micros: bigint }
  /** The smallest unit of the payment's asset. */
  | { readonly unit: 'atomic'; readonly amount: bigint }
  /** Hundredths of a percent of the most. */
  | { readonly unit: 'percent'; readonly hundredths: bigint }

/**
 * The amount to charge, rounded up to the asset's smallest unit and at most `mostAtomic`.
 *
 * @param mostAtomic the amount that the buyer has authorized
 * @returns `isCapped` is true if the call has cost more
 */
export function chargedAmount(
  charge: UseCharge,
  mostAtomic: bigint,
  { usdPerUnit, decimals }: Pick<Asset, 'usdPerUnit' | 'decimals'>,
): { readonly amountAtomic: bigint; readonly isCapped: boolean } {
  const cost = (): bigint => {
    switch (charge.unit) {
      case 'usd':
        return convertPrice(charge.micros, usdPerUnit, decimals)
      case 'atomic':
        return charge.amount
      case 'percent':
        return dividedUp(mostAtomic * charge.hundredths, 10_000n)
    }
  }
  const amountAtomic = cost()
  return amountAtomic > mostAtomic
    ? { amountAtomic: mostAtomic, isCapped: true }
    : { amountAtomic, isCapped: false }
}

/** Rounds up, so that a seller never gets less than the price. */
export const dividedUp = (dividend: bigint, divisor: bigint): bigint => (dividend + divisor - 1n) / divisor

/**
 * Reads the response header `Settlement-Overrides` of a seller's API: `{"amount":"50000"}` in the smallest unit of the payment's
 * asset, `{"amount":"50%"}` of the authorized amount, or `{"amount":"$0.05"}` (x402, as in @x402/core 2.27).
 *
 * @param values the values of all headers of this name
 * @returns a text for the log if the header is missing or unreadable
 */
export function readSettlementOverrides(values: readonly string[]): UseCharge | string {
  const [value] = values
  if (value === undefined) return 'the response has no header Settlement-Overrides'
  if (values.length > 1) return 'the response has the header Settlement-Overrides more than once'
  const parsed = parseStrictJson(value)
  if (!parsed.ok || !isObject(parsed.value)) return 'Settlement-Overrides is not a JSON object'
  const amount = own(parsed.value, 'amount')
  if (typeof amount !== 'string') return 'amount of Settlement-Overrides is not a string'
  return (
    readAmount(amount) ?? 'amount of Settlement-Overrides has none of the forms "50000", "50%" and "$0.05"'
  )
}

function readAmount(amount: string): UseCharge | undefined {
  if (/^(?:0|[1-9]\d{0,77})$/.test(amount)) return { unit: 'atomic', amount: BigInt(amount) }
  const percent = /^(0|[1-9]\d{0,8})(?:\.(\d{1,2}))?%$/.exec(amount)
  if (percent !== null)
    return { unit: 'percent', hundredths: BigInt(percent[1]! + (percent[2] ?? '').padEnd(2, '0')) }
  if (!amount.startsWith('$')) return undefined
  const usd = readDecimal(amount.slice(1))
  return usd === undefined ? undefined : { unit: 'usd', micros: dividedUp(usd, 10n ** 12n) }
}

/** A decimal number times 10^18. Undefined for another text, such as one with a sign or an exponent. */
export function readDecimal(text: string): bigint | undefined {
  try {
    return parseAmount(text, 18)
  } catch (error) {
    if (isTollgateError(error)) return undefined
    throw error
  }
}
