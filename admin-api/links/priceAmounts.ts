import { displayPath } from '../../core/config/read/pointer.ts'
import type { ErrorDetail } from '../../core/errors/error.ts'

/** Decimals of USDC, on every network. */
const assetDecimals = 6
/**
 * Maximum number of digits before the decimal point of a price. A price of a trillion or more is a typing error, and would not fit
 * into a token amount on Solana (64 bits).
 */
const MAX_WHOLE_DIGITS = 12

/** Reads a price of a table, of a price server or by use. It must be above zero, because every such call has a payment. */
export function sellingPrice(pointer: string, text: string, root: object, problems: ErrorDetail[]): string {
  const path = displayPath(pointer, { price: root })
  const read = readPrice(path, text)
  if ('problem' in read) problems.push(read.problem)
  else if (/[1-9]/.test(read.price)) return read.price
  else
    problems.push({
      path,
      code: 'range',
      message:
        'Expected a price above 0, because every call of the link is paid. Create another link for free calls.',
    })
  return '1'
}

/**
 * A price in its stored form, without leading zeros and with no more decimals than USDC has. Further decimals are removed if they
 * are zeros. Other further decimals are refused, because a seller's price is never rounded.
 *
 * @param text has the form `^\d+(\.\d{1,18})?$`
 */
export function readPrice(
  path: string,
  text: string,
): { readonly price: string } | { readonly problem: ErrorDetail } {
  const problem = (code: string, message: string) => ({ problem: { path, code, message } })
  const [whole = '', fraction = ''] = text.split('.')
  const digits = whole.replace(/^0+(?=\d)/, '')
  if (digits.length > MAX_WHOLE_DIGITS)
    return problem('range', 'Expected a price below 1,000,000,000,000 USDC.')
  if (/[1-9]/.test(fraction.slice(assetDecimals))) {
    return problem(
      'too_many_decimals',
      `Expected at most ${assetDecimals} decimals, as USDC has, but this price has ${fraction.replace(/0+$/, '').length}.`,
    )
  }
  const kept = fraction.slice(0, assetDecimals)
  return { price: kept === '' ? digits : `${digits}.${kept}` }
}
