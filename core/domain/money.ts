import { TollgateError } from '../errors/error.ts'

/**
 * An amount in an asset's smallest unit. USDC has 6 decimals, so one USDC is `1_000_000n`. A JavaScript number is never used,
 * because it could be rounded.
 */
export type AtomicAmount = bigint

const decimalForm = /^(0|[1-9]\d{0,59})(?:\.(\d{1,18}))?$/

/**
 * Parses a decimal string such as `0.10` into atomic units of an asset with `decimals` decimals.
 *
 * @throws {TollgateError} `VALIDATION_ERROR` if the text is not a plain decimal (no sign, no exponent). Also if it has more
 *   decimals than the asset, because money must never be rounded
 */
export function parseAmount(text: string, decimals: number): AtomicAmount {
  const match = decimalForm.exec(text)
  if (!match) throw amountError(text, 'a decimal number such as 0.10')
  const fraction = (match[2] ?? '').replace(/0+$/, '')
  if (fraction.length > decimals) throw amountError(text, `at most ${decimals} decimals`)
  return BigInt(match[1]! + fraction.padEnd(decimals, '0'))
}

/** Formats atomic units as a decimal string. Trailing zeros are removed down to `minDecimals` places. */
export function formatAmount(amount: AtomicAmount, decimals: number, minDecimals = 0): string {
  const sign = amount < 0n ? '-' : ''
  const digits = (amount < 0n ? -amount : amount).toString().padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  const fraction = digits
    .slice(digits.length - decimals)
    .replace(/0+$/, '')
    .padEnd(minDecimals, '0')
  return fraction === '' ? sign + whole : `${sign}${whole}.${fraction}`
}

/** The platform's share of an amount, where 500 bps is 5 %. It is rounded down, so that a fee is never higher than agreed. */
export function feeOf(amount: AtomicAmount, feeBps: number): AtomicAmount {
  return (amount * BigInt(feeBps)) / 10_000n
}

/**
 * Converts a USDC price to another asset at a fixed rate from the configuration. It rounds up to the asset's smallest unit, so that
 * a seller never gets less than the price.
 *
 * @param priceAtomic price in atomic USDC (6 decimals)
 * @param usdPerUnit value of one whole unit of the asset in USDC, as a decimal string such as `0.25`
 */
export function convertPrice(priceAtomic: AtomicAmount, usdPerUnit: string, decimals: number): AtomicAmount {
  const rate = parseAmount(usdPerUnit, 18)
  if (rate === 0n) throw amountError(usdPerUnit, 'a rate above zero')
  const numerator = priceAtomic * 10n ** BigInt(decimals) * 10n ** 12n
  return (numerator + rate - 1n) / rate
}

/**
 * The value of an amount of an asset at the rate of the configuration, in units of 10^-18 USD.
 *
 * @param usdPerUnit as in {@link convertPrice}
 */
export const valueE18 = (amount: AtomicAmount, usdPerUnit: string, decimals: number): bigint =>
  (amount * parseAmount(usdPerUnit, 18)) / 10n ** BigInt(decimals)

function amountError(text: string, expected: string): TollgateError {
  const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text
  return new TollgateError('VALIDATION_ERROR', `Expected ${expected}, got ${JSON.stringify(shown)}.`)
}
