import { Ajv } from 'ajv'
import { isQueried, type PriceQuery, type Pricing, priceRange } from '../../../core/domain/pricing.ts'
import type { ErrorDetail } from '../../../core/errors/error.ts'
import { toDetails } from '../../http/validation.ts'
import { type GivenPrice, priceField } from '../priceField.ts'
import { readPricing } from '../readPricing.ts'
import { isTree, SkippedOperation } from './document.ts'
import { type Price, priceForm } from './prices.ts'

/** The price of an operation. It is an object if the price depends on the request or on the use. */
export type StatedPrice = Price | PriceObject

type PriceObject = Exclude<Pricing, PriceQuery>

/** Maximum length of a price in characters, as in a link. */
const MAX_PRICE_CHARS = 64

/** The form of a price as an object, as in the body of a link. */
const isGiven = new Ajv({ strict: false, verbose: true }).compile<GivenPrice>({
  ...priceField,
  type: 'object',
})

/**
 * The price in `x-price`. Undefined if there is none.
 *
 * @throws {SkippedOperation} if it is not a valid price
 */
export function statedPrice(value: unknown): StatedPrice | undefined {
  if (value === undefined) return undefined
  if (value === false || value === null) return 'none'
  if (isTree(value)) return objectOf(value)
  const text = typeof value === 'number' ? String(value) : value
  if (typeof text === 'string' && text.length <= MAX_PRICE_CHARS && priceForm.test(text)) return text
  throw new SkippedOperation(
    `The x-price is ${JSON.stringify(value)?.slice(0, 100)}. Expected a decimal string such as "0.01", a table with rules and otherwise, or a price by use with upTo, by and otherwise.`,
  )
}

function objectOf(value: object): PriceObject {
  const given = withTexts(value, 0)
  const problems: ErrorDetail[] = []
  if (!isGiven(given)) problems.push(...toDetails(isGiven.errors!, given))
  const pricing = problems.length === 0 ? readPricing(given as GivenPrice, problems)?.pricing : undefined
  if (pricing != null && !isQueried(pricing)) return pricing
  const [problem] = problems
  const why =
    problem === undefined
      ? 'Set a price server on the link itself.'
      : `${problem.path.replace(/^price\.?/, '') || 'The price'}: ${problem.message}`
  throw new SkippedOperation(`The x-price is not a table of prices or a price by use. ${why}`)
}

/** Nesting of a price, from the object to a value of a condition. */
const MAX_DEPTH = 6

/** Writes numbers and booleans as texts, because YAML reads an unquoted price or condition as a number or boolean. */
function withTexts(value: unknown, depth: number): unknown {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (typeof value !== 'object' || value === null || depth === MAX_DEPTH) return value
  if (Array.isArray(value)) return value.map((one) => withTexts(one, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withTexts(one, depth + 1)]))
}

/** The lowest and the highest price of an operation. */
export const rangeOf = (price: StatedPrice): { readonly price: Price; readonly priceMax: Price } =>
  typeof price === 'string' ? { price, priceMax: price } : priceRange(price)
