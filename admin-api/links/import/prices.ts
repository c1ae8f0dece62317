import { nearMiss } from '../../../core/config/check/nearMiss.ts'
import { ImportRefusal } from './document.ts'

/** A price as a rule or a document says it: a decimal string in USDC, or `none` for what is not for sale. */
export type Price = string

/** The form of {@link Price}. */
export const priceForm = /^(?:\d+(?:\.\d{1,18})?|none)$/

/** As of a link's price. */
const MAX_PRICE_CHARS = 64

/** What a rule may be about. */
export interface Priced {
  /** `POST /render`. */
  readonly operation: string
  readonly operationId: string | null
}

/**
 * Makes the look-up of a price by rules: `POST /render`, `/render` for all its methods, an operationId, each with a `*` at the
 * end for all that begin so. The longest that fits decides, and one without `*` before one with it.
 *
 * @throws {ImportRefusal} for a rule that fits no operation: what it was meant for would be sold at another price
 */
export function priceRules(
  rules: ReadonlyMap<string, Price>,
  operations: readonly Priced[],
): (operation: Priced) => Price | undefined {
  const sorted = [...rules].sort(
    ([a], [b]) => Number(a.endsWith('*')) - Number(b.endsWith('*')) || b.length - a.length,
  )
  for (const [rule] of sorted) {
    if (operations.some((one) => fits(rule, one))) continue
    const meant = nearMiss(
      rule,
      operations.flatMap(({ operation, operationId }) => [operation, ...(operationId ? [operationId] : [])]),
    )
    const hint = meant === undefined ? '' : ` Did you mean ${JSON.stringify(meant)}?`
    throw new ImportRefusal(
      'prices',
      `The price rule ${JSON.stringify(rule.slice(0, 100))} fits no operation of the document.${hint}`,
    )
  }
  return (operation) => sorted.find(([rule]) => fits(rule, operation))?.[1]
}

function fits(rule: string, { operation, operationId }: Priced): boolean {
  const path = operation.slice(operation.indexOf(' ') + 1)
  const [method = '', ...rest] = rule.split(' ')
  const spelt = rest.length === 0 ? rule : `${method.toUpperCase()} ${rest.join(' ')}`
  const names = [operation, path, ...(operationId === null ? [] : [operationId])]
  return spelt.endsWith('*')
    ? names.some((name) => name.startsWith(spelt.slice(0, -1)))
    : names.includes(spelt)
}

/** The price in `x-price`; undefined where it says nothing. @returns null when it is no price */
export function statedPrice(value: unknown): Price | undefined | null {
  if (value === undefined) return undefined
  if (value === false || value === null) return 'none'
  const text = typeof value === 'number' ? String(value) : value
  return typeof text === 'string' && text.length <= MAX_PRICE_CHARS && priceForm.test(text) ? text : null
}
