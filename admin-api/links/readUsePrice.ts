import { displayPath } from '../../core/config/read/pointer.ts'
import { parseAmount } from '../../core/domain/money.ts'
import type { UseMeasure, UsePrice } from '../../core/domain/pricing.ts'
import type { ErrorDetail } from '../../core/errors/error.ts'
import { readPrice, sellingPrice } from './priceAmounts.ts'
import { pointerProblem } from './priceConditions.ts'
import type { GivenPrice } from './priceField.ts'

type GivenObject = Exclude<GivenPrice, string>
type GivenMeasure = Exclude<NonNullable<GivenObject['by']>, string>

const measures = ['tokens', 'bytes', 'seconds', 'pointer'] as const

/**
 * Reads a price by use, whose required fields are there.
 *
 * @param problems the function adds every problem of the price to this list
 */
export function readUsePrice(given: GivenObject, problems: ErrorDetail[]): UsePrice | undefined {
  const before = problems.length
  const upTo = sellingPrice('/price/upTo', given.upTo!, given, problems)
  const otherwise = readOtherwise(given.otherwise!, upTo, problems)
  const by = readMeasure(given, problems)
  if (problems.length > before || by === undefined) return undefined
  return { upTo, by, otherwise, stream: given.stream ?? false }
}

function readOtherwise(given: string | null, upTo: string, problems: ErrorDetail[]): string {
  const path = 'price.otherwise'
  const read = readPrice(path, given ?? '-')
  if (given === null) {
    const message = `Expected the price of a call whose use is not known, from "0" to "${upTo}", got null.`
    problems.push({ path, code: 'required', message })
    return '0'
  }
  if ('problem' in read) problems.push(read.problem)
  else if (parseAmount(read.price, 18) <= parseAmount(upTo, 18)) return read.price
  else problems.push({ path, code: 'range', message: `Expected at most upTo, which is ${upTo}.` })
  return '0'
}

function readMeasure(given: GivenObject, problems: ErrorDetail[]): UseMeasure | undefined {
  const by = given.by!
  if (by === 'header') return by
  const refuse = (path: string, code: string, message: string) => void problems.push({ path, code, message })
  const named = typeof by === 'string' ? [] : measures.filter((name) => by[name] !== undefined)
  if (typeof by === 'string' || named.length !== 1) {
    refuse('price.by', 'value', `Expected "header", or an object with one of ${measures.join(', ')}.`)
    return undefined
  }
  if ((by.each !== undefined) !== (by.pointer !== undefined)) {
    refuse('price.by.each', 'required', 'Expected pointer and each together, got one of them.')
    return undefined
  }
  if (by.pointer !== undefined) {
    const problem = pointerProblem(by.pointer)
    if (problem !== undefined) refuse('price.by.pointer', 'format', problem)
  }
  const rates = ratesOf(by)
  if (Object.values(rates).every((rate) => rate === undefined || !/[1-9]/.test(rate)))
    refuse('price.by', 'range', 'Expected a rate above 0, because the link could never be charged.')
  for (const [name, rate] of Object.entries(rates))
    if (rate !== undefined && withoutZeros(rate).length > MAX_RATE_DIGITS)
      refuse(
        displayPath(`/price/by/${name}`, { price: given }),
        'range',
        `Expected a rate with at most ${MAX_RATE_DIGITS} digits before the decimal point.`,
      )
  return measureOf(by)
}

/** Maximum number of digits before the decimal point of a rate. */
const MAX_RATE_DIGITS = 12

const withoutZeros = (rate: string): string => rate.split('.', 1)[0]!.replace(/^0+(?=\d)/, '')

/** The rates of a measure, by their path below `by`. */
const ratesOf = ({
  tokens,
  bytes,
  seconds,
  each,
}: GivenMeasure): Readonly<Record<string, string | undefined>> => ({
  'tokens/input': tokens?.input,
  'tokens/output': tokens?.output,
  'tokens/cached': tokens?.cached,
  bytes,
  seconds,
  each,
})

/** The measure in its stored form, whose rates have no leading zeros. */
function measureOf({ tokens, bytes, seconds, pointer, each }: GivenMeasure): UseMeasure {
  if (bytes !== undefined) return { bytes: stored(bytes) }
  if (seconds !== undefined) return { seconds: stored(seconds) }
  if (pointer !== undefined) return { pointer, each: stored(each!) }
  const { input, output, cached } = tokens!
  return {
    tokens: {
      input: stored(input),
      output: stored(output),
      ...(cached !== undefined && { cached: stored(cached) }),
    },
  }
}

const stored = (rate: string): string => rate.replace(/^0+(?=\d)/, '')
