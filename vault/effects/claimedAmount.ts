import { parseAmount } from '../../core/domain/money.ts'
import { isTollgateError } from '../../core/errors/error.ts'

/** Digits that every double keeps, so that a number read from JSON is still what was written (IEEE 754, binary64). */
const EXACT_DIGITS = 15

export type ClaimedAmount =
  | { readonly ok: true; readonly atomic: bigint }
  | { readonly ok: false; readonly message: string }

/**
 * Reads the `amount` of a request, a JSON number or a string, into atomic units, exactly: no sign, no more decimals than
 * the asset has, nothing that is not finite, and no exponent in a string. A number of more than 15 digits may have been
 * changed on its way through JSON, so it has to come as a string.
 */
export function claimedAmount(amount: unknown, decimals: number): ClaimedAmount {
  if (typeof amount !== 'number' && typeof amount !== 'string') {
    return no('Expected amount to be a number or a string of decimal digits.')
  }
  if (typeof amount === 'number') {
    if (!Number.isFinite(amount) || amount < 0 || Object.is(amount, -0)) {
      return no('Expected amount to be zero or more and finite.')
    }
    if (
      decimalText(amount)
        .replace('.', '')
        .replace(/^0+|0+$/g, '').length > EXACT_DIGITS
    ) {
      return no(`Expected at most ${EXACT_DIGITS} digits in a number, got more: send amount as a string.`)
    }
  }
  try {
    return { ok: true, atomic: parseAmount(decimalText(amount), decimals) }
  } catch (error) {
    if (!isTollgateError(error)) throw error
    return no(`In amount: ${error.message}`)
  }
}

/**
 * An amount of a request in decimal digits. Numbers below a millionth are the ones that JavaScript writes with an exponent:
 * 1e-7 is 0.0000001. Numbers from 1e21 on keep theirs, and are refused: no asset has as much.
 */
export function decimalText(amount: number | string): string {
  const small = typeof amount === 'number' ? /^(\d)(?:\.(\d+))?e-(\d+)$/.exec(String(amount)) : null
  if (small === null) return String(amount)
  const [, first = '', rest = '', exponent] = small
  return `0.${'0'.repeat(Number(exponent) - 1)}${first}${rest}`
}

/** The same in its one spelling, by which two requests for the same amount are known: without zeros at its end. */
export const plainAmount = (amount: number | string): string =>
  decimalText(amount)
    .replace(/(\.\d*?)0+$/, '$1')
    .replace(/\.$/, '')

const no = (message: string): ClaimedAmount => ({ ok: false, message })
