import type { ErrorDetail } from '../../../core/errors/error.ts'

/** USDC's, on every network. */
const assetDecimals = 6
/** A trillion and more is a slip of the keyboard, and would not fit a token amount on Solana (64 bits). */
const maxWholeDigits = 12

/**
 * A price in the form in which it is kept: no leading zeros, no more decimals than USDC has. Trailing zeros beyond them
 * are cut off; anything else there is refused, because rounding somebody's price is never right.
 *
 * @param text has the form `^\d+(\.\d{1,18})?$`
 */
export function readPrice(text: string): { price: string } | { problem: ErrorDetail } {
  const problem = (code: string, message: string) => ({ problem: { path: 'price', code, message } })
  const [whole = '', fraction = ''] = text.split('.')
  const digits = whole.replace(/^0+(?=\d)/, '')
  if (digits.length > maxWholeDigits) return problem('range', 'Prices stay below 1,000,000,000,000 USDC.')
  if (/[1-9]/.test(fraction.slice(assetDecimals))) {
    return problem(
      'too_many_decimals',
      `USDC has ${assetDecimals} decimals; this price has ${fraction.replace(/0+$/, '').length}.`,
    )
  }
  const kept = fraction.slice(0, assetDecimals)
  return { price: kept === '' ? digits : `${digits}.${kept}` }
}
