import { readFileSync } from 'node:fs'
import { UsageError } from '../output/exitCodes.ts'

/**
 * Reads prices by request or a price by use from a JSON file. The gateway, not this function, checks the prices.
 *
 * @throws {UsageError} for a file that cannot be read, or whose content is not a JSON object
 */
export function readPriceRules(file: string): object {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw new UsageError(
      `Expected a JSON file in --price-rules, but ${file} cannot be read: ${(error as Error).message}`,
    )
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new UsageError(`Expected JSON in ${file}: ${(error as Error).message}`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new UsageError(
      `Expected a JSON object in ${file}, such as {"rules": [{"when": {"path": "/render/*"}, "price": "0.05"}], "otherwise": "0.01"}.`,
    )
  return value
}
