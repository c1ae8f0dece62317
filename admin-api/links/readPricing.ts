import { childPointer } from '../../core/config/read/pointer.ts'
import type { Link } from '../../core/domain/link.ts'
import { parseAmount } from '../../core/domain/money.ts'
import {
  type PriceConditions,
  type PriceQuery,
  type PriceTable,
  type Pricing,
  priceRange,
} from '../../core/domain/pricing.ts'
import type { ErrorDetail } from '../../core/errors/error.ts'
import { readPrice, sellingPrice } from './priceAmounts.ts'
import { headerProblem, problemsOf } from './priceConditions.ts'
import type { GivenPrice } from './priceField.ts'
import { readUsePrice } from './readUsePrice.ts'

/** Maximum size of a table, in bytes of JSON. The database stores the table with its link, and the gateway compiles it. */
const MAX_TABLE_BYTES = 16_384

type PriceFields = Pick<Link, 'price' | 'priceMax' | 'pricing'>

/**
 * Reads a price that the schema has checked.
 *
 * @param problems the function adds every problem of the price to this list
 * @returns undefined if there are problems
 */
export function readPricing(given: GivenPrice, problems: ErrorDetail[]): PriceFields | undefined {
  if (typeof given === 'string') {
    const read = readPrice('price', given)
    if ('price' in read) return { price: read.price, priceMax: null, pricing: null }
    problems.push(read.problem)
    return undefined
  }
  if (given.rules === undefined && given.url === undefined && given.upTo === undefined) {
    const message =
      'Expected a decimal string such as "0.10", a table with rules and otherwise, a server with url, max and fallback, or a price by use with upTo, by and otherwise.'
    problems.push({ path: 'price', code: 'required', message })
    return undefined
  }
  const found: ErrorDetail[] = []
  const pricing = readForm(given, found)
  if (pricing === undefined) {
    problems.push(...found)
    return undefined
  }
  const bytes = Buffer.byteLength(JSON.stringify(pricing))
  if (bytes > MAX_TABLE_BYTES)
    found.push({
      path: 'price',
      code: 'too_long',
      message: `Expected at most ${MAX_TABLE_BYTES} bytes of JSON, got ${bytes}.`,
    })
  problems.push(...found)
  return found.length > 0 ? undefined : { ...priceRange(pricing), pricing }
}

type GivenObject = Exclude<GivenPrice, string>

function readForm(given: GivenObject, problems: ErrorDetail[]): Pricing | undefined {
  if ('url' in given) return readQuery(given, problems)
  if ('upTo' in given)
    return hasFields(given, 'use', ['by', 'otherwise'], problems) ? readUsePrice(given, problems) : undefined
  return readTable(given, problems)
}

/** The fields of each form of a price. */
const forms = {
  table: ['rules', 'otherwise'],
  query: ['url', 'max', 'fallback', 'headers'],
  use: ['upTo', 'by', 'otherwise', 'stream'],
} as const satisfies Record<string, readonly (keyof GivenObject)[]>

/** Adds a problem for each field that is missing or belongs to another form of a price. @returns whether it has added none */
function hasFields(
  given: GivenObject,
  form: keyof typeof forms,
  required: readonly (keyof GivenObject)[],
  problems: ErrorDetail[],
): boolean {
  const before = problems.length
  for (const name of required)
    if (given[name] === undefined)
      problems.push({ path: `price.${name}`, code: 'required', message: 'This field is required.' })
  const fields: readonly string[] = forms[form]
  const expected = Object.values(forms).map((names) => names.join(', '))
  for (const name of Object.keys(given))
    if (!fields.includes(name))
      problems.push({
        path: `price.${name}`,
        code: 'conflict',
        message: `Expected the fields of one form: ${expected.join('; or ')}. Got fields of several.`,
      })
  return problems.length === before
}

function readTable(given: GivenObject, problems: ErrorDetail[]): PriceTable | undefined {
  if (!hasFields(given, 'table', forms.table, problems)) return undefined
  return {
    rules: given.rules!.map(({ when, price }, i) => {
      const at = childPointer('/price/rules', i)
      problems.push(...problemsOf(when, childPointer(at, 'when'), given))
      return {
        when: withLowerCaseHeaders(when),
        price: sellingPrice(childPointer(at, 'price'), price, given, problems),
      }
    }),
    otherwise:
      given.otherwise === null ? null : sellingPrice('/price/otherwise', given.otherwise!, given, problems),
  }
}

function readQuery(given: GivenObject, problems: ErrorDetail[]): PriceQuery | undefined {
  if (!hasFields(given, 'query', ['max', 'fallback'], problems)) return undefined
  const headers = (given.headers ?? []).map((name) => name.toLowerCase())
  headers.forEach((name, i) => {
    const problem = headerProblem(name)
    if (problem !== undefined) problems.push({ path: `price.headers[${i}]`, code: 'name', message: problem })
  })
  const max = sellingPrice('/price/max', given.max!, given, problems)
  const fallback =
    given.fallback === null ? null : sellingPrice('/price/fallback', given.fallback!, given, problems)
  if (fallback !== null && problems.length === 0 && parseAmount(fallback, 18) > parseAmount(max, 18))
    problems.push({
      path: 'price.fallback',
      code: 'range',
      message: `Expected at most max, which is ${max}.`,
    })
  return { url: given.url!, headers: [...new Set(headers)], max, fallback }
}

const withLowerCaseHeaders = (when: PriceConditions): PriceConditions =>
  when.header === undefined
    ? when
    : {
        ...when,
        header: Object.fromEntries(
          Object.entries(when.header).map(([name, value]) => [name.toLowerCase(), value]),
        ),
      }
