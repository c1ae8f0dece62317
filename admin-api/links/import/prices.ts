import { nearMiss } from '../../../core/config/check/nearMiss.ts'
import { ImportRefusal } from './document.ts'

/** A price in a rule or a document. It is a decimal string in USDC, or `none` for an operation that is not for sale. */
export type Price = string

/** The pattern of {@link Price}. */
export const priceForm = /^(?:\d+(?:\.\d{1,18})?|none)$/

/** What a rule can match. */
interface Priced {
  /** Such as `POST /render`. */
  readonly operation: string
  readonly operationId: string | null
}

/**
 * Creates the lookup of a price by rules. A rule is `POST /render`, `/render` for all its methods, or an operationId. A rule with a
 * `*` at its end matches everything that begins with the text before the `*`. The longest match wins, and a rule without `*` wins
 * over a rule with `*`.
 *
 * @throws {ImportRefusal} for a rule that matches no operation, because the intended operation would be sold at another price
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
      `The price rule ${JSON.stringify(rule.slice(0, 100))} matches no operation of the document.${hint}`,
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
